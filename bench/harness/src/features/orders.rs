//! Orders of a shop as JSON of about 1 KiB: names of fields and some words recur, numbers do not.

use rand_core::SeedableRng;
use rand_xoshiro::Xoshiro256PlusPlus;

use crate::random::below;

const FIRST: [&str; 8] = ["Ada", "Grace", "Alan", "Edsger", "Barbara", "Donald", "Tony", "Frances"];
const STREETS: [&str; 6] = ["Main St", "High St", "Park Ave", "Elm St", "Lake Rd", "Hill Rd"];
const GOODS: [&str; 10] =
    ["lamp", "chair", "desk", "kettle", "blanket", "notebook", "pencil", "clock", "vase", "shelf"];

/// Bytes after which an order gets no more items.
const ENOUGH: usize = 980;

/// The order of a number.
pub fn order(number: u64) -> Vec<u8> {
    let random = &mut Xoshiro256PlusPlus::seed_from_u64(number);
    let mut text = format!(
        "{{\"id\":\"{:016x}\",\"created\":\"2026-{:02}-{:02}T{:02}:{:02}:{:02}Z\",\
         \"customer\":{{\"id\":{},\"name\":\"{} {:x}\",\"email\":\"u{}@example.org\",\
         \"phone\":\"+49{}\"}},\"address\":{{\"street\":\"{} {}\",\"zip\":\"{:05}\"}},\"items\":[",
        below(random, u64::MAX),
        1 + below(random, 12),
        1 + below(random, 28),
        below(random, 24),
        below(random, 60),
        below(random, 60),
        below(random, 10_000_000),
        one_of(random, &FIRST),
        below(random, 1 << 30),
        below(random, 10_000_000),
        below(random, 1 << 31),
        1 + below(random, 300),
        one_of(random, &STREETS),
        below(random, 100_000),
    );
    let mut comma = "";
    while text.len() < ENOUGH {
        text += &format!(
            "{comma}{{\"sku\":\"{:08x}\",\"name\":\"{}\",\"quantity\":{},\"price\":{}.{:02}}}",
            below(random, 1 << 32),
            one_of(random, &GOODS),
            1 + below(random, 9),
            below(random, 500),
            below(random, 100),
        );
        comma = ",";
    }
    text += "]}";
    text.into_bytes()
}

fn one_of(random: &mut Xoshiro256PlusPlus, words: &[&'static str]) -> &'static str {
    words[below(random, words.len() as u64) as usize]
}
