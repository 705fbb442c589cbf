//! Where webhooks may lead: rules of the operator over names and addresses.
//!
//! | rule | allows |
//! |---|---|
//! | `public` | every public address, over https; what holds when nothing is said |
//! | `hooks.example.com`, `*.example.com` | public addresses under that name, over https |
//! | `10.1.0.0/16`, `127.0.0.1`, `fd00::/8` | addresses of that range, public or not, over http too |
//!
//! Invariants: what isn't public is reached only where a range says so, whatever the name; an IPv4 address in an
//! IPv6 one is the IPv4 address; http is spoken only where a range says so, since anybody on the way reads it.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::str::FromStr;

use reqwest::Url;

/// Where a webhook leads, as its address says it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Target {
    /// The address.
    pub url: Url,
    /// Its host, without brackets.
    pub host: String,
    /// Whether it is spoken to over TLS.
    pub secure: bool,
}

/// What is wrong with an address.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum NoTarget {
    /// It is no URL.
    #[error("it is no URL")]
    Form,
    /// Its scheme is another.
    #[error("it begins with neither https:// nor http://")]
    Scheme,
    /// It holds a name and a password.
    #[error("it holds a user's name or password, which would be shown with it")]
    Credentials,
    /// It has a part that never leaves a client.
    #[error("it has a part behind #, which is never sent")]
    Fragment,
}

impl FromStr for Target {
    type Err = NoTarget;

    fn from_str(text: &str) -> Result<Self, NoTarget> {
        let url = Url::parse(text.trim()).map_err(|_| NoTarget::Form)?;
        let secure = match url.scheme() {
            "https" => true,
            "http" => false,
            _ => return Err(NoTarget::Scheme),
        };
        if !url.username().is_empty() || url.password().is_some() {
            return Err(NoTarget::Credentials);
        }
        if url.fragment().is_some() {
            return Err(NoTarget::Fragment);
        }
        let host = url.host_str().ok_or(NoTarget::Form)?;
        let host = host.trim_start_matches('[').trim_end_matches(']').to_ascii_lowercase();
        Ok(Self { url, host, secure })
    }
}

impl Target {
    /// The address that its host is, where it is no name: nobody resolves those.
    #[must_use]
    pub fn literal(&self) -> Option<IpAddr> {
        self.host.parse().ok()
    }
}

/// A rule.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Rule {
    /// Every public address.
    Public,
    /// A name.
    Name(String),
    /// Every name below one.
    Below(String),
    /// A range: its first address as an IPv6 one, and how many of its bits count.
    Range(u128, u32),
}

/// A word that is no rule.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "`{word}` says nobody to deliver webhooks to: a name, *.NAME, an address range such as 10.1.0.0/16, or public"
)]
pub struct NoRule {
    /// The word.
    pub word: String,
}

impl FromStr for Rule {
    type Err = NoRule;

    fn from_str(word: &str) -> Result<Self, NoRule> {
        let wrong = || NoRule { word: word.to_owned() };
        let text = word.trim().to_ascii_lowercase();
        if text == "public" {
            return Ok(Self::Public);
        }
        let (head, bits) = match text.split_once('/') {
            Some((head, bits)) => (head, Some(bits.parse::<u32>().map_err(|_| wrong())?)),
            None => (text.as_str(), None),
        };
        if let Ok(address) = head.parse::<IpAddr>() {
            let (most, offset) = if address.is_ipv4() { (32, 96) } else { (128, 0) };
            let bits = bits.unwrap_or(most);
            if bits > most {
                return Err(wrong());
            }
            return Ok(Self::Range(number(address), bits + offset));
        }
        let (name, below) = text.strip_prefix("*.").map_or((text.as_str(), false), |name| (name, true));
        let fits = name.bytes().all(|b| b.is_ascii_alphanumeric() || b"-._".contains(&b));
        if bits.is_some() || name.is_empty() || !fits {
            return Err(wrong());
        }
        Ok(if below { Self::Below(name.to_owned()) } else { Self::Name(name.to_owned()) })
    }
}

/// Why an address isn't spoken to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Refused {
    /// It isn't public.
    #[error("it leads to an address that isn't public, which the operator would have to allow by its range")]
    NotPublic,
    /// The operator allows others.
    #[error("the operator allows only others")]
    NotNamed,
    /// It is spoken to without TLS.
    #[error("it is spoken to without TLS, which the operator would have to allow by its range")]
    Plain,
}

/// What the operator allows; every public address when nothing is said.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Allowed {
    rules: Vec<Rule>,
}

impl Allowed {
    /// Reads rules: one a word, or several with commas between them.
    ///
    /// # Errors
    /// [`NoRule`].
    pub fn parse<'a>(words: impl IntoIterator<Item = &'a str>) -> Result<Self, NoRule> {
        let words = words.into_iter().flat_map(|word| word.split(',')).filter(|word| !word.trim().is_empty());
        Ok(Self { rules: words.map(str::parse).collect::<Result<_, _>>()? })
    }

    /// Whether a host that leads to this address may be spoken to.
    ///
    /// # Errors
    /// [`Refused`].
    pub fn may(&self, host: &str, address: IpAddr, secure: bool) -> Result<(), Refused> {
        let place = number(address);
        let in_range = |rule: &Rule| match rule {
            Rule::Range(first, bits) => same_head(*first, place, *bits),
            Rule::Public | Rule::Name(_) | Rule::Below(_) => false,
        };
        if self.rules.iter().any(in_range) {
            return Ok(());
        }
        if !is_public(address) {
            return Err(Refused::NotPublic);
        }
        let host = host.trim_end_matches('.').to_ascii_lowercase();
        let named = |rule: &Rule| match rule {
            Rule::Public => true,
            Rule::Name(name) => host == *name,
            Rule::Below(name) => host.strip_suffix(name.as_str()).is_some_and(|head| head.ends_with('.')),
            Rule::Range(..) => false,
        };
        if !self.rules.is_empty() && !self.rules.iter().any(named) {
            return Err(Refused::NotNamed);
        }
        if secure { Ok(()) } else { Err(Refused::Plain) }
    }
}

/// An address as a number; an IPv4 one as the IPv6 one that stands for it.
fn number(address: IpAddr) -> u128 {
    match address {
        IpAddr::V4(v4) => v4.to_ipv6_mapped().to_bits(),
        IpAddr::V6(v6) => v6.to_bits(),
    }
}

fn same_head(a: u128, b: u128, bits: u32) -> bool {
    bits == 0 || (a ^ b) >> (128 - bits) == 0
}

/// IPv4 ranges that are nobody's or somebody's own, with the RFC that says so.
const NOT_PUBLIC_4: [(Ipv4Addr, u32); 16] = [
    (Ipv4Addr::new(0, 0, 0, 0), 8),       // 791: this network
    (Ipv4Addr::new(10, 0, 0, 0), 8),      // 1918: private
    (Ipv4Addr::new(100, 64, 0, 0), 10),   // 6598: behind a provider; some clouds' metadata
    (Ipv4Addr::new(127, 0, 0, 0), 8),     // 1122: loopback
    (Ipv4Addr::new(169, 254, 0, 0), 16),  // 3927: link-local; most clouds' metadata
    (Ipv4Addr::new(172, 16, 0, 0), 12),   // 1918
    (Ipv4Addr::new(192, 0, 0, 0), 24),    // 6890: protocol assignments
    (Ipv4Addr::new(192, 0, 2, 0), 24),    // 5737: documentation
    (Ipv4Addr::new(192, 31, 196, 0), 24), // 7535: AS112
    (Ipv4Addr::new(192, 88, 99, 0), 24),  // 7526: 6to4 relays
    (Ipv4Addr::new(192, 168, 0, 0), 16),  // 1918
    (Ipv4Addr::new(198, 18, 0, 0), 15),   // 2544: benchmarks
    (Ipv4Addr::new(198, 51, 100, 0), 24), // 5737
    (Ipv4Addr::new(203, 0, 113, 0), 24),  // 5737
    (Ipv4Addr::new(224, 0, 0, 0), 4),     // 5771: multicast
    (Ipv4Addr::new(240, 0, 0, 0), 4),     // 1112: reserved, and broadcast
];

/// IPv6 ranges inside of what is handed out (2000::/3) that are not somebody's host. All outside is not public:
/// loopback, unique local, link-local, multicast, addresses that stand for IPv4 ones behind a translator.
const NOT_PUBLIC_6: [(Ipv6Addr, u32); 4] = [
    (Ipv6Addr::new(0x2001, 0, 0, 0, 0, 0, 0, 0), 23), // 2928: protocols; Teredo leads to IPv4 addresses
    (Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, 0), 32), // 3849: documentation
    (Ipv6Addr::new(0x2002, 0, 0, 0, 0, 0, 0, 0), 16), // 3056: 6to4 leads to IPv4 addresses
    (Ipv6Addr::new(0x3fff, 0, 0, 0, 0, 0, 0, 0), 20), // 9637: documentation
];

/// Whether an address is a public one: somebody's host on the Internet.
#[must_use]
pub fn is_public(address: IpAddr) -> bool {
    match address.to_canonical() {
        IpAddr::V4(v4) => {
            let place = u128::from(v4.to_bits()) << 96;
            !NOT_PUBLIC_4
                .iter()
                .any(|(first, bits)| same_head(u128::from(first.to_bits()) << 96, place, *bits))
        }
        IpAddr::V6(v6) => {
            let handed_out = same_head(0x2000 << 112, v6.to_bits(), 3);
            handed_out
                && !NOT_PUBLIC_6.iter().any(|(first, bits)| same_head(first.to_bits(), v6.to_bits(), *bits))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ip(text: &str) -> IpAddr {
        text.parse().expect(text)
    }

    fn allowed(words: &str) -> Allowed {
        Allowed::parse([words]).expect(words)
    }

    #[test]
    fn what_is_nobodys_or_somebodys_own_is_not_public_in_any_spelling() {
        for private in [
            "0.0.0.0",
            "0.1.2.3",
            "10.0.0.1",
            "10.255.255.255",
            "100.64.0.1",
            "100.100.100.200",
            "127.0.0.1",
            "127.255.255.254",
            "169.254.0.1",
            "169.254.169.254",
            "172.16.0.1",
            "172.31.255.255",
            "192.0.0.8",
            "192.0.0.192",
            "192.0.2.1",
            "192.88.99.1",
            "192.168.0.1",
            "192.168.255.255",
            "198.18.0.1",
            "198.19.255.255",
            "198.51.100.7",
            "203.0.113.9",
            "224.0.0.1",
            "239.255.255.255",
            "240.0.0.1",
            "255.255.255.255",
        ] {
            assert!(!is_public(ip(private)), "{private}");
            assert!(!is_public(ip(&format!("::ffff:{private}"))), "::ffff:{private}");
            // Compatible, translated (well-known and local), 6to4: never public, whatever they stand for.
            for stands_for in
                [format!("::{private}"), format!("64:ff9b::{private}"), format!("64:ff9b:1::{private}")]
            {
                assert!(!is_public(ip(&stands_for)), "{stands_for}");
            }
        }
        for private in [
            "::",
            "::1",
            "fc00::1",
            "fd00:ec2::254",
            "fdff::1",
            "fe80::1",
            "fe80::1:2:3:4",
            "febf::1",
            "fec0::1",
            "ff02::1",
            "2001::1",
            "2001:0:7f00:1::",
            "2001:10::1",
            "2001:20::1",
            "2001:db8::1",
            "2002:7f00:1::1",
            "2002:a00:1::",
            "3fff::1",
            "100::1",
            "5f00::1",
            "4000::1",
        ] {
            assert!(!is_public(ip(private)), "{private}");
        }
    }

    #[test]
    fn the_neighbours_of_those_ranges_are_public() {
        for public in [
            "1.1.1.1",
            "8.8.8.8",
            "9.255.255.255",
            "11.0.0.0",
            "100.63.255.255",
            "100.128.0.0",
            "126.255.255.255",
            "128.0.0.0",
            "169.253.255.255",
            "169.255.0.0",
            "172.15.255.255",
            "172.32.0.0",
            "192.167.255.255",
            "192.169.0.0",
            "198.17.255.255",
            "198.20.0.0",
            "223.255.255.255",
            "2606:4700::1111",
            "2a00::1",
            "2001:200::1",
            "2003::1",
            "::ffff:8.8.8.8",
        ] {
            assert!(is_public(ip(public)), "{public}");
        }
    }

    #[test]
    fn a_private_address_is_reached_only_by_its_range_whatever_the_name() {
        let (inside, outside) = (ip("10.1.2.3"), ip("93.184.216.34"));
        for words in ["", "public", "ci.example.com", "*.example.com", "10.2.0.0/16", "127.0.0.1"] {
            assert_eq!(
                allowed(words).may("ci.example.com", inside, true),
                Err(Refused::NotPublic),
                "{words}"
            );
        }
        let range = allowed("10.1.0.0/16");
        for secure in [true, false] {
            assert_eq!(range.may("ci.example.com", inside, secure), Ok(()));
            assert_eq!(range.may("x", ip("::ffff:10.1.2.3"), secure), Ok(()));
        }
        // Whoever names a range names nothing else.
        assert_eq!(range.may("example.com", outside, true), Err(Refused::NotNamed));
        assert_eq!(allowed("10.1.0.0/16,public").may("example.com", outside, true), Ok(()));
        assert_eq!(allowed("::1").may("localhost", ip("::1"), false), Ok(()));
        assert_eq!(allowed("fd00::/8").may("x", ip("fd12::1"), false), Ok(()));
        assert_eq!(allowed("fd00::/8").may("x", ip("fe80::1"), false), Err(Refused::NotPublic));
    }

    #[test]
    fn names_allow_public_addresses_under_them_over_tls() {
        let address = ip("93.184.216.34");
        let hooks = allowed("hooks.example.com,*.example.org");
        for (host, expected) in [
            ("hooks.example.com", Ok(())),
            ("HOOKS.example.com.", Ok(())),
            ("a.example.org", Ok(())),
            ("a.b.example.org", Ok(())),
            ("example.org", Err(Refused::NotNamed)),
            ("evilexample.org", Err(Refused::NotNamed)),
            ("hooks.example.com.evil.net", Err(Refused::NotNamed)),
            ("93.184.216.34", Err(Refused::NotNamed)),
        ] {
            assert_eq!(hooks.may(host, address, true), expected, "{host}");
        }
        assert_eq!(hooks.may("a.example.org", address, false), Err(Refused::Plain));
        assert_eq!(Allowed::default().may("anything", address, true), Ok(()));
        assert_eq!(Allowed::default().may("anything", address, false), Err(Refused::Plain));
    }

    #[test]
    fn rules_that_say_nothing_are_named() {
        for word in
            ["10.0.0.0/33", "10.0.0.0/x", "::1/129", "a b", "*.", "https://example.com", "example.com/24"]
        {
            assert_eq!(Allowed::parse([word]), Err(NoRule { word: word.to_owned() }));
        }
        assert_eq!(Allowed::parse(["", " , "]).map(|all| all.rules), Ok(Vec::new()));
        assert_eq!(allowed("0.0.0.0/0").may("x", ip("127.0.0.1"), false), Ok(()));
        assert_eq!(allowed("0.0.0.0/0").may("x", ip("::1"), false), Err(Refused::NotPublic));
    }

    #[test]
    fn an_address_is_taken_as_it_will_be_connected_to() {
        for (text, host) in [
            ("https://Hooks.Example.com/x?key=1", "hooks.example.com"),
            ("http://0x7f.1:80/", "127.0.0.1"),
            ("http://2130706433/", "127.0.0.1"),
            ("http://017700000001/", "127.0.0.1"),
            ("http://[::ffff:127.0.0.1]/", "::ffff:7f00:1"),
            ("http://127。0。0。1/", "127.0.0.1"),
        ] {
            let target: Target = text.parse().expect(text);
            assert_eq!(target.host, host, "{text}");
            if target.literal().is_some() {
                let refused = Allowed::default().may(&target.host, target.literal().expect("one"), false);
                assert_eq!(refused, Err(Refused::NotPublic), "{text}");
            }
        }
        for (text, problem) in [
            ("nothing", NoTarget::Form),
            ("https://", NoTarget::Form),
            ("ftp://example.com", NoTarget::Scheme),
            ("file:///etc/passwd", NoTarget::Scheme),
            ("https://me:secret@example.com", NoTarget::Credentials),
            ("https://me@example.com", NoTarget::Credentials),
            ("https://example.com/#x", NoTarget::Fragment),
        ] {
            assert_eq!(text.parse::<Target>().expect_err(text), problem, "{text}");
        }
    }
}
