//! Four digits, as the published package rounds them.

/// Python's `round(value, 4)`: the exact binary value rounded to four decimals, half to even.
pub fn round_to_4_digits(value: f64) -> f64 {
    // Formatting with a precision rounds the exact value half to even, and reading rounds correctly, which is how
    // CPython does it too. Beyond 2^53 no double has decimals, and what is not finite has none either.
    if !value.is_finite() || value.abs() >= 9_007_199_254_740_992.0 {
        return value;
    }
    format!("{value:.4}").parse().unwrap_or(value)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rounds_the_exact_value_half_to_even() {
        for (value, rounded) in [
            (0.12345, 0.1235), // the double is above the half
            (0.83015, 0.8302), // the double is above the half
            (5e-05, 0.0001),   // the double is above the half
            (0.00025, 0.0003), // the double is above the half
            (0.56785, 0.5678), // the double is below the half
            (0.03125, 0.0312), // exactly half: to even
            (0.09375, 0.0938), // exactly half: to even
            (0.00048828125, 0.0005),
            (1.00005, 1.0001), // the double is above the half
            (2.675, 2.675),
            (1.0, 1.0),
            (0.99994999, 0.9999), // the double is below the half
            (0.999951, 1.0),
            (-0.03125, -0.0312),
            (1e300, 1e300),
        ] {
            assert_eq!(round_to_4_digits(value), rounded, "{value}");
        }
        assert_eq!(round_to_4_digits(-0.00001).to_bits(), (-0.0_f64).to_bits());
        assert!(round_to_4_digits(f64::NAN).is_nan());
        assert_eq!(round_to_4_digits(f64::INFINITY), f64::INFINITY);
    }
}
