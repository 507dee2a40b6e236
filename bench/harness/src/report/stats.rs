//! Repetitions: the median, and how far they lie apart.

/// The middle of several measurements, and their extremes.
#[derive(Clone, Copy, Debug, PartialEq, serde::Serialize)]
pub struct Spread {
    /// Half of the measurements are at most this; of an even number, the mean of the middle two.
    pub median: f64,
    /// The least.
    pub least: f64,
    /// The most.
    pub most: f64,
    /// Number of entries.
    pub count: usize,
}

impl Spread {
    /// Of `values`; `None` if there are none. What is not a number is left out.
    pub fn of(values: impl IntoIterator<Item = f64>) -> Option<Self> {
        let mut sorted: Vec<_> = values.into_iter().filter(|value| value.is_finite()).collect();
        sorted.sort_by(f64::total_cmp);
        let (&least, &most) = (sorted.first()?, sorted.last()?);
        let (count, middle) = (sorted.len(), sorted.len() / 2);
        let median = match count % 2 {
            1 => sorted[middle],
            _ => sorted[middle - 1].midpoint(sorted[middle]),
        };
        Some(Self { median, least, most, count })
    }

    /// The distance from the least to the most, as a share of the median.
    pub fn relative(&self) -> Option<f64> {
        (self.count > 1 && self.median > 0.0).then(|| (self.most - self.least) / self.median)
    }

    /// Whether some measurement of the one was no better than some of the other: then neither is
    /// ahead. One alone has no spread to tell.
    pub fn meets(&self, other: &Self) -> bool {
        let told = self.count > 1 && other.count > 1;
        told && self.least <= other.most && other.least <= self.most
    }
}

/// `ours` as a multiple of `theirs`, each value with its round: the median of the ratios of runs of
/// one round, which followed each other, since what drifts hits both. Of the medians, if not both
/// ran in all rounds.
pub fn ratio(ours: &[(u32, f64)], theirs: &[(u32, f64)]) -> Option<f64> {
    let median = |values: &mut dyn Iterator<Item = f64>| Spread::of(values).map(|s| s.median);
    let over = |ours: f64, theirs: f64| if theirs > 0.0 { ours / theirs } else { f64::NAN };
    let [ours, theirs] = [ours, theirs].map(|values| {
        let mut values = values.to_vec();
        values.sort_by_key(|(round, _)| *round);
        values
    });
    let mut pairs = ours.iter().zip(&theirs);
    if ours.len() == theirs.len() && pairs.clone().all(|(ours, theirs)| ours.0 == theirs.0) {
        return median(&mut pairs.by_ref().map(|(ours, theirs)| over(ours.1, theirs.1)));
    }
    let of = |values: &[(u32, f64)]| median(&mut values.iter().map(|(_, value)| *value));
    Some(over(of(&ours)?, of(&theirs)?)).filter(|ratio| ratio.is_finite())
}

#[cfg(test)]
mod tests {
    use super::{Spread, ratio};

    fn spread(values: &[f64]) -> Spread {
        Spread::of(values.iter().copied()).unwrap()
    }

    #[test]
    fn the_middle_of_odd_and_even_numbers() {
        let odd = Spread { median: 3.0, least: 1.0, most: 10.0, count: 3 };
        assert_eq!(spread(&[10.0, 1.0, 3.0]), odd);
        assert_eq!(spread(&[4.0, 1.0, 2.0, 100.0]).median, 3.0);
        assert_eq!(spread(&[7.0]).median, 7.0);
    }

    #[test]
    fn nothing_and_no_number_have_no_middle() {
        assert_eq!(Spread::of([]), None);
        assert_eq!(Spread::of([f64::NAN, f64::INFINITY]), None);
        assert_eq!(spread(&[f64::NAN, 2.0]).count, 1);
    }

    #[test]
    fn runs_of_a_round_are_compared_with_each_other() {
        let three = [(1, 4.0), (2, 10.0), (3, 1.0)];
        assert_eq!(ratio(&[(1, 8.0), (2, 20.0), (3, 3.0)], &three), Some(2.0));
        assert_eq!(ratio(&[(2, 20.0), (3, 3.0), (1, 8.0)], &three), Some(2.0));
        assert_eq!(ratio(&[(1, 8.0), (2, 20.0)], &three), Some(3.5));
        assert_eq!(ratio(&[(1, 8.0), (4, 20.0), (3, 3.0)], &three), Some(2.0));
        assert_eq!(ratio(&[(1, 8.0)], &[(1, 0.0)]), None);
        assert_eq!(ratio(&[(1, 8.0), (2, 1.0)], &[(1, 0.0)]), None);
        assert_eq!(ratio(&[], &[]), None);
    }

    #[test]
    fn the_spread_is_a_share_of_the_median() {
        assert_eq!(spread(&[9.0, 10.0, 12.0]).relative(), Some(0.3));
        assert_eq!(spread(&[5.0]).relative(), None);
    }
}
