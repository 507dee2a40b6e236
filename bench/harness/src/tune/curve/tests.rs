//! The search on curves that are known, with and without noise.

use rand_core::SeedableRng;
use rand_xoshiro::Xoshiro256PlusPlus;

use super::{Curve, FIRST, LEAST, MOST, Pair, Threshold, non_decreasing};
use crate::random::unit;

/// Most pairs of a search, whatever it meets.
const PAIRS_EVER: usize = 100;

/// Roughly normal, standard deviation 1.
fn normal(random: &mut Xoshiro256PlusPlus) -> f64 {
    (0..12).map(|_| unit(random)).sum::<f64>() - 6.0
}

/// What a search finds where separation multiplies the speed by `gain(size)`, with `noise`.
fn found(gain: impl Fn(f64) -> f64, noise: f64, seed: u64) -> Curve {
    let mut random = Xoshiro256PlusPlus::seed_from_u64(seed);
    let mut curve = Curve::default();
    while let Some(size) = curve.next() {
        assert!((LEAST..=MOST).contains(&size) && size.is_multiple_of(8), "{size}");
        let inline = 1e6 * (noise * normal(&mut random)).exp();
        let separated = 1e6 * gain(size as f64) * (noise * normal(&mut random)).exp();
        curve.add(size, Pair { separated, inline });
        assert!(curve.pairs() < PAIRS_EVER, "the search ends");
    }
    curve
}

/// A power of the size that crosses 1 at `crossing`.
fn power(crossing: f64, slope: f64) -> impl Fn(f64) -> f64 {
    move |size| (size / crossing).powf(slope)
}

fn at(curve: &Curve) -> (usize, Option<usize>, Option<usize>) {
    match curve.threshold() {
        Some(Threshold::At { size, surely_inline, surely_separated }) => {
            (size, surely_inline, surely_separated)
        }
        other => panic!("{other:?}, {:?}", curve.rows()),
    }
}

#[test]
fn without_noise_the_crossing_is_met_within_a_fifth() {
    for crossing in [9.0, 40.0, 65.0, 100.0, 150.0, 190.0, 300.0, 700.0, 2000.0, 12_000.0] {
        let curve = found(power(crossing, 0.5), 0.0, 1);
        let (size, ..) = at(&curve);
        let least = crossing as usize;
        let most = (crossing * 1.2 + 8.0) as usize;
        assert!((least..=most).contains(&size), "{size} for {crossing}");
    }
}

#[test]
fn a_fifth_is_not_missed_by_much_under_noise() {
    for seed in 0..300 {
        let crossing = 30.0 * 1.02f64.powi(seed as i32 % 200);
        let curve = found(power(crossing, 0.4), 0.07, seed);
        let (size, surely_inline, surely_separated) = at(&curve);
        let miss = (size as f64 / crossing).ln().abs();
        assert!(miss < 0.7, "seed {seed}: {size} for {crossing}: {:?}", curve.rows());
        assert!(surely_inline.is_none_or(|sure| sure < size));
        assert!(surely_separated.is_none_or(|sure| sure >= size));
    }
}

#[test]
fn what_is_certain_is_mostly_true() {
    let mut wrong = 0;
    for seed in 0..300 {
        let (_, surely_inline, surely_separated) = at(&found(power(170.0, 0.4), 0.1, seed));
        let false_inline = surely_inline.is_some_and(|size| size > 170);
        let false_separated = surely_separated.is_some_and(|size| size < 170);
        wrong += u32::from(false_inline || false_separated);
    }
    assert!(wrong < 45, "{wrong} of 300 are wrong");
}

#[test]
fn a_step_is_found_too() {
    for seed in 0..50 {
        let step = |size: f64| if size < 200.0 { 0.6 } else { 1.6 };
        let (size, surely_inline, surely_separated) = at(&found(step, 0.05, seed));
        assert!((200..=240).contains(&size), "{size}");
        assert!(surely_inline.is_some_and(|sure| sure >= 160));
        assert_eq!(surely_separated, Some(size));
    }
}

#[test]
fn where_nothing_crosses_the_ends_are_named() {
    for seed in 0..50 {
        assert_eq!(found(|_| 0.7, 0.05, seed).threshold(), Some(Threshold::Never(MOST)));
        assert_eq!(found(|_| 1.5, 0.05, seed).threshold(), Some(Threshold::Always(LEAST)));
    }
}

#[test]
fn an_outlier_does_not_move_the_threshold() {
    for (size, separated) in [(64, 9e6), (128, 9e6), (512, 1e5), (4096, 1e5)] {
        let mut curve = found(power(170.0, 0.5), 0.02, 7);
        let (before, ..) = at(&curve);
        curve.add(size, Pair { separated, inline: 1e6 });
        let (after, ..) = at(&curve);
        assert_eq!(after, before, "an outlier at {size} B");
    }
}

#[test]
fn there_is_no_threshold_before_all_first_sizes_are_measured() {
    let mut curve = Curve::default();
    for left in (1..=FIRST.len()).rev() {
        assert_eq!((curve.missing(), curve.threshold()), (left, None));
        let size = curve.next().unwrap();
        curve.add(size, Pair { separated: 1.0, inline: 2.0 });
    }
    assert_eq!(curve.threshold(), Some(Threshold::Never(512)));
    curve.add(512, Pair { separated: 0.0, inline: 0.0 });
    assert_eq!(curve.pairs(), FIRST.len(), "no ratio, no measurement");
}

#[test]
fn repetitions_make_certain() {
    let row = |pairs: usize| {
        let mut curve = Curve::default();
        (0..pairs).for_each(|_| curve.add(128, Pair { separated: 1.1, inline: 1.0 }));
        curve.rows().remove(0)
    };
    assert!(!row(1).surely_separated() && !row(1).surely_inline());
    assert!(row(9).surely_separated() && row(9).uncertainty < row(3).uncertainty);
}

#[test]
fn neighbours_in_the_wrong_order_are_pooled() {
    let fit = |values: &[f64]| non_decreasing(values.iter().map(|value| vec![*value]));
    assert_eq!(fit(&[1.0, 2.0, 4.0]), [1.0, 2.0, 4.0]);
    assert_eq!(fit(&[1.0, 4.0, 2.0]), [1.0, 3.0, 3.0]);
    assert_eq!(fit(&[3.0, 2.0, 1.0]), [2.0, 2.0, 2.0]);
    let lists = [vec![4.0, 4.0, 5.0], vec![0.0], vec![9.0]];
    assert_eq!(non_decreasing(lists.into_iter()), [4.0, 4.0, 9.0]);
    assert!(fit(&[]).is_empty());
}
