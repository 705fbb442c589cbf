//! A family's event enum against its name and its payload's text, without a tree of JSON in between: a log is
//! read event by event, a million times over.
//!
//! Invariants: a payload is read to its end; the enums are adjacently tagged, `{"type": …, "data": …}`.

use serde::de::value::StrDeserializer;
use serde::de::{DeserializeOwned, DeserializeSeed, Deserializer, IntoDeserializer, MapAccess, Visitor};
use serde::{Serialize, forward_to_deserialize_any};
use serde_json::Error;

const TAG: &str = "type";
const CONTENT: &str = "data";

/// The event of that name with that payload.
///
/// # Errors
/// What serde says of a name or payload that is none of the enum's.
pub fn read<T: DeserializeOwned>(name: &str, data: &str) -> Result<T, Error> {
    T::deserialize(Tagged { name, data })
}

/// Name and payload of an event.
///
/// # Errors
/// What serde says; an enum that isn't tagged so.
pub fn write(event: &impl Serialize) -> Result<(String, String), Error> {
    let text = serde_json::to_string(event)?;
    let name_and_data = text
        .strip_prefix("{\"type\":\"")
        .and_then(|text| text.strip_suffix('}'))
        .and_then(|text| text.split_once("\",\"data\":"));
    let (name, data) =
        name_and_data.ok_or_else(|| serde::ser::Error::custom("an event is its type with its data"))?;
    Ok((name.to_owned(), data.to_owned()))
}

struct Tagged<'a> {
    name: &'a str,
    data: &'a str,
}

impl<'de> Deserializer<'de> for Tagged<'de> {
    type Error = Error;

    fn deserialize_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        visitor.visit_map(Pair { name: Some(self.name), data: Some(self.data) })
    }

    forward_to_deserialize_any! {
        bool i8 i16 i32 i64 i128 u8 u16 u32 u64 u128 f32 f64 char str string bytes byte_buf option unit
        unit_struct newtype_struct seq tuple tuple_struct map struct enum identifier ignored_any
    }
}

/// What is still to be read of the two.
struct Pair<'a> {
    name: Option<&'a str>,
    data: Option<&'a str>,
}

impl<'de> MapAccess<'de> for Pair<'de> {
    type Error = Error;

    fn next_key_seed<K: DeserializeSeed<'de>>(&mut self, seed: K) -> Result<Option<K::Value>, Error> {
        let next = match (self.name, self.data) {
            (Some(_), _) => TAG,
            (None, Some(_)) => CONTENT,
            (None, None) => return Ok(None),
        };
        let key: StrDeserializer<'_, Error> = next.into_deserializer();
        seed.deserialize(key).map(Some)
    }

    fn next_value_seed<V: DeserializeSeed<'de>>(&mut self, seed: V) -> Result<V::Value, Error> {
        if let Some(name) = self.name.take() {
            let name: StrDeserializer<'_, Error> = name.into_deserializer();
            return seed.deserialize(name);
        }
        let mut reader = serde_json::Deserializer::from_str(self.data.take().unwrap_or_default());
        let value = seed.deserialize(&mut reader)?;
        reader.end()?;
        Ok(value)
    }
}

#[cfg(test)]
mod tests {
    use serde::Deserialize;

    use super::*;

    #[derive(Debug, PartialEq, Serialize, Deserialize)]
    #[serde(tag = "type", content = "data", rename_all = "snake_case")]
    enum Toy {
        Moved(Moved),
        Gone(Gone),
    }

    #[derive(Debug, PartialEq, Serialize, Deserialize)]
    struct Moved {
        to: String,
        by: Option<u32>,
    }

    #[derive(Debug, PartialEq, Serialize, Deserialize)]
    struct Gone {}

    #[test]
    fn what_is_written_is_read_again() {
        let strange = "a \"quoted\",\"data\": \\ {é}".to_owned();
        for event in [Toy::Moved(Moved { to: strange, by: Some(3) }), Toy::Gone(Gone {})] {
            let (name, data) = write(&event).expect("an event is written");
            assert_eq!(read::<Toy>(&name, &data).expect("and read"), event);
        }
    }

    #[test]
    fn what_is_no_event_is_refused() {
        for (name, data) in [
            ("moved", "{}"),
            ("moved", ""),
            ("moved", "{\"to\":\"x\",\"by\":null} {}"),
            ("moved", "{\"to\":\"x\",\"by\":-1}"),
            ("moved", "null"),
            ("jumped", "{}"),
            ("", "{}"),
        ] {
            assert!(read::<Toy>(name, data).is_err(), "{name} {data}");
        }
    }
}
