//! The real clock and randomness, without a program around them.

use jiff::Timestamp;
use multica::kernel::world::World;
use uuid::Uuid;

pub struct TestWorld;

impl World for TestWorld {
    fn now(&self) -> Timestamp {
        Timestamp::from_microsecond(Timestamp::now().as_microsecond()).unwrap()
    }

    fn uuid_v7(&self) -> Uuid {
        Uuid::now_v7()
    }

    fn uuid_v4(&self) -> Uuid {
        Uuid::new_v4()
    }

    fn random(&self) -> [u8; 32] {
        let mut bytes = [0; 32];
        getrandom::fill(&mut bytes).unwrap();
        bytes
    }
}
