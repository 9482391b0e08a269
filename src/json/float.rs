//! The text of a double as Python's `repr` spells it.

use std::fmt::Write as _;

/// Python's `repr(value)` of a float: the shortest digits that read back as the same double, with an exponent when
/// the decimal exponent is below -4 or at least 16 (`1e-05`, `1e+16`), and always a point or an exponent otherwise
/// (`1.0`). Not-a-number and the infinities are `nan`, `inf` and `-inf`.
pub fn python_float_repr(value: f64) -> String {
    let mut out = String::with_capacity(24);
    push_float_repr(&mut out, value);
    out
}

/// Appends [`python_float_repr`] to `out`.
pub(super) fn push_float_repr(out: &mut String, value: f64) {
    if value.is_nan() {
        out.push_str("nan");
        return;
    }
    if value.is_sign_negative() {
        out.push('-');
    }
    if value.is_infinite() {
        out.push_str("inf");
        return;
    }
    if value == 0.0 {
        out.push_str("0.0");
        return;
    }
    let scientific = shortest(value.abs());
    let (mantissa, exponent) = scientific.split_once('e').unwrap_or((&scientific, "0"));
    let exponent: i32 = exponent.parse().unwrap_or(0);
    if !(-4..16).contains(&exponent) {
        let sign = if exponent < 0 { '-' } else { '+' };
        // Writing to a String cannot fail.
        let _ = write!(out, "{mantissa}e{sign}{:02}", exponent.unsigned_abs());
        return;
    }
    let digits = mantissa.chars().filter(|c| *c != '.');
    let n_digits = i32::try_from(mantissa.len()).map_or(1, |n| if n > 1 { n - 1 } else { n });
    if exponent < 0 {
        out.push_str("0.");
        out.extend(std::iter::repeat_n('0', (-1 - exponent).unsigned_abs() as usize));
        out.extend(digits);
        return;
    }
    for (i, digit) in (0_i32..).zip(digits) {
        if i == exponent + 1 {
            out.push('.');
        }
        out.push(digit);
    }
    if n_digits <= exponent + 1 {
        out.extend(std::iter::repeat_n('0', (exponent + 1 - n_digits).unsigned_abs() as usize));
        out.push_str(".0");
    }
}

/// The shortest digits of a positive finite value as `d[.ddd]e<exponent>`, and of those the closest ones.
fn shortest(value: f64) -> String {
    let shortest = format!("{value:e}");
    // Where two such numbers are equally close CPython takes the even one and `{:e}` the upper one. Rounding the exact
    // value to the same number of digits rounds half to even, as long as the result still reads back.
    let n_decimals = shortest.split_once('e').map_or(0, |(mantissa, _)| mantissa.len().saturating_sub(2));
    let rounded = format!("{value:.n_decimals$e}");
    if rounded.parse() == Ok(value) { rounded } else { shortest }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spells_like_python() {
        for (value, text) in [
            (0.0, "0.0"),
            (-0.0, "-0.0"),
            (1.0, "1.0"),
            (532.0, "532.0"),
            (0.1, "0.1"),
            (-1.5, "-1.5"),
            (1234567.5, "1234567.5"),
            (0.0001, "0.0001"),
            (0.00012345, "0.00012345"),
            (0.00001, "1e-05"),
            (1e-7, "1e-07"),
            (1.5e-10, "1.5e-10"),
            (1e15, "1000000000000000.0"),
            (9999999999999998.0, "9999999999999998.0"),
            (1e16, "1e+16"),
            (123456789012345680.0, "1.2345678901234568e+17"),
            (1e22, "1e+22"),
            (1e100, "1e+100"),
            (5e-324, "5e-324"),
            (f64::MAX, "1.7976931348623157e+308"),
            (2.9802322387695312e-08, "2.9802322387695312e-08"),
            (5.684341886080802e-14, "5.684341886080802e-14"),
            (f64::INFINITY, "inf"),
            (f64::NEG_INFINITY, "-inf"),
            (f64::NAN, "nan"),
        ] {
            assert_eq!(python_float_repr(value), text);
        }
    }
}
