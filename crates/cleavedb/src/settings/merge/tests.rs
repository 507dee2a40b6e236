//! Tests of operators, and of what jobs do with operands.

use super::*;

/// Remembers each operand, and cannot combine.
struct List;

impl MergeOperator for List {
    fn name(&self) -> &str {
        "list"
    }

    fn apply(&self, _: &[u8], value: Option<&[u8]>, operand: &[u8]) -> Option<Vec<u8>> {
        Some([value.unwrap_or_default(), b",", operand].concat())
    }
}

fn rule(value_max: usize) -> JobRule {
    JobRule { operators: MergeOperators::default().with(List), value_max }
}

fn stored(operand: &Operand) -> Vec<u8> {
    operand.stored().unwrap()
}

#[test]
fn operands_apply_from_the_oldest_to_the_newest() {
    let operators = rule(0).operators;
    let of = |value: Option<&str>, operands: &[Operand]| {
        let operands: Vec<_> = operands.iter().rev().map(stored).collect();
        let made = operators.value(b"\0\0key", value.map(str::as_bytes), &operands);
        made.map(|made| String::from_utf8(made).unwrap())
    };
    let (add, append) = (Operand::add, |text: &str| Operand::append(text));
    assert_eq!(of(None, &[add(1), add(2), add(-5)]).unwrap(), "-2");
    assert_eq!(of(Some("40"), &[add(2)]).unwrap(), "42");
    assert_eq!(of(Some("a"), &[append("b"), append("c")]).unwrap(), "abc");
    assert_eq!(of(None, &[Operand::max("b"), Operand::max("a")]).unwrap(), "b");
    assert_eq!(of(Some("c"), &[Operand::max("b")]).unwrap(), "c");
    let list = |text: &str| Operand::new("list", text);
    assert_eq!(
        of(None, &[append("4"), append("1"), add(1), list("x"), list("y")]).unwrap(),
        "42,x,y"
    );
    assert_eq!(of(Some("no number"), &[add(1)]).unwrap_err().kind(), ErrorKind::Merge);
    let unknown = of(None, &[Operand::new("unknown", "")]).unwrap_err();
    assert_eq!((unknown.kind(), unknown.fact("operator")), (ErrorKind::Merge, Some("unknown")));
    let end = i64::MAX.to_string();
    assert_eq!(of(Some(&end), &[add(1)]).unwrap(), i64::MIN.to_string(), "sums wrap round");
}

/// A read applies all operands at once, a job two at a time.
#[test]
fn operators_make_the_same_of_all_operands_as_of_one_after_another() {
    let operators = rule(0).operators;
    let operands: [&[u8]; 4] = [b"12", b"-5", b"700", b"3"];
    for operator in &operators.0 {
        for value in [None, Some(&b"40"[..]), Some(b"9")] {
            for count in 1..=operands.len() {
                let mut one_by_one = value.map(<[u8]>::to_vec);
                for operand in &operands[..count] {
                    one_by_one = operator.apply(b"key", one_by_one.as_deref(), operand);
                }
                let at_once = operator.apply_all(b"key", value, &operands[..count]);
                assert_eq!(at_once, one_by_one, "{}", operator.name());
            }
        }
        let wrong = operator.apply_all(b"key", Some(b"no number"), &operands);
        assert_eq!(wrong.is_none(), operator.name() == "add");
    }
}

#[test]
fn jobs_combine_operands_of_one_operator_up_to_a_length() {
    let rule = rule(4);
    let combine =
        |older: &Operand, newer: &Operand| rule.combine(b"", &stored(older), &stored(newer));
    assert_eq!(combine(&Operand::add(1), &Operand::add(2)), Some(stored(&Operand::add(3))));
    assert_eq!(combine(&Operand::add(1), &Operand::append("2")), None);
    assert_eq!(combine(&Operand::new("list", "1"), &Operand::new("list", "2")), None);
    let half = Operand::append(vec![0; OPERAND_LEN_MAX / 2]);
    assert_eq!(combine(&half, &half), None, "too long");
    let apply = |value: Option<&[u8]>, operand: &Operand| rule.apply(b"", value, &stored(operand));
    assert_eq!(apply(Some(b"1"), &Operand::add(9)), Some(b"10".to_vec()));
    assert_eq!(apply(Some(b"1234"), &Operand::append("5")), None, "too long for the index");
    assert_eq!(apply(Some(b"x"), &Operand::add(9)), None);
}

#[test]
fn operands_and_operators_are_checked() {
    let operators = MergeOperators::default();
    let check = |operand: Operand| operators.check_stored(&stored(&operand)).map_err(|e| e.kind());
    assert_eq!(check(Operand::add(-7)), Ok(()));
    assert_eq!(check(Operand::new("add", "seven")), Err(ErrorKind::InvalidArgument));
    assert_eq!(check(Operand::new("list", "")), Err(ErrorKind::Merge));
    let long = Operand::append(vec![0; OPERAND_LEN_MAX]);
    assert_eq!(long.stored().unwrap_err().kind(), ErrorKind::InvalidArgument);
    assert!(Operand::new("", "").stored().is_err());
    assert!(operators.fault().is_none() && operators.clone().with(List).fault().is_none());
    assert!(operators.with(List).with(List).fault().is_some());
}
