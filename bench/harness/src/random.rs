//! Draws that the generators share.

use rand_core::Rng;
use rand_xoshiro::Xoshiro256PlusPlus;

/// A uniform number below `bound`, by multiplication: its bias is below bound / 2^64.
pub fn below(random: &mut Xoshiro256PlusPlus, bound: u64) -> u64 {
    ((u128::from(random.next_u64()) * u128::from(bound)) >> 64) as u64
}

/// A uniform number in [0, 1) with 53 random bits.
pub fn unit(random: &mut Xoshiro256PlusPlus) -> f64 {
    (random.next_u64() >> 11) as f64 / (1u64 << 53) as f64
}

/// The quantile `at` of the generalized Pareto distribution with location 0: `ParetoCdfInversion`
/// of `db_bench`.
pub fn generalized_pareto(at: f64, shape: f64, scale: f64) -> f64 {
    scale * ((1.0 - at).powf(-shape) - 1.0) / shape
}

#[cfg(test)]
mod tests {
    use super::generalized_pareto;

    #[test]
    fn pareto_has_its_mean() {
        let steps = 1_000_000;
        let sum: f64 = (0..steps)
            .map(|step| {
                generalized_pareto((f64::from(step) + 0.5) / f64::from(steps), 0.2615, 25.45)
            })
            .sum();
        let mean = sum / f64::from(steps);
        assert!((mean - 25.45 / (1.0 - 0.2615)).abs() < 0.1, "{mean}");
    }
}
