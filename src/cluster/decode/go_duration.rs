//! Durations as Go writes them ("1h30m0s", "1.5h", "300ms"), since `metav1.Duration` is one.

use std::time::Duration;

/// Parses a Go duration of at least zero; `None` when it is not one. Negative durations are refused: no
/// field read here may hold one. Fractions are kept to the nanosecond.
#[must_use]
pub fn parse_go_duration(text: &str) -> Option<Duration> {
    let text = text.strip_prefix('+').unwrap_or(text);
    if text == "0" {
        return Some(Duration::ZERO);
    }
    if text.is_empty() {
        return None;
    }
    let mut rest = text;
    let mut nanos: u128 = 0;
    while !rest.is_empty() {
        let whole = digits(rest);
        rest = rest.get(whole.len()..)?;
        let fraction = match rest.strip_prefix('.') {
            None => "",
            Some(after) => {
                let fraction = digits(after);
                rest = after.get(fraction.len()..)?;
                fraction
            }
        };
        if whole.is_empty() && fraction.is_empty() {
            return None;
        }
        let unit_length = rest
            .find(|c: char| c.is_ascii_digit() || c == '.')
            .unwrap_or(rest.len());
        let (unit, after) = rest.split_at_checked(unit_length)?;
        rest = after;
        let unit: u128 = match unit {
            "ns" => 1,
            "us" | "µs" | "μs" => 1_000,
            "ms" => 1_000_000,
            "s" => 1_000_000_000,
            "m" => 60_000_000_000,
            "h" => 3_600_000_000_000,
            _ => return None,
        };
        let whole: u128 = if whole.is_empty() { 0 } else { whole.parse().ok()? };
        nanos = nanos.checked_add(whole.checked_mul(unit)?)?;
        // 18 digits are beyond a nanosecond for every unit; more would only overflow.
        let fraction = fraction.get(..fraction.len().min(18))?;
        if !fraction.is_empty() {
            let scale = 10_u128.checked_pow(u32::try_from(fraction.len()).ok()?)?;
            nanos = nanos.checked_add(fraction.parse::<u128>().ok()?.checked_mul(unit)? / scale)?;
        }
    }
    // Go holds a duration in 63 bits of nanoseconds, about 292 years.
    u64::try_from(nanos)
        .ok()
        .filter(|nanos| i64::try_from(*nanos).is_ok())
        .map(Duration::from_nanos)
}

fn digits(text: &str) -> &str {
    let end = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    text.get(..end).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn durations_as_go_reads_them() {
        for (text, seconds) in [
            ("0", 0.0),
            ("0s", 0.0),
            ("10m0s", 600.0),
            ("1h30m0s", 5_400.0),
            ("48h", 172_800.0),
            ("720h", 2_592_000.0),
            ("1.5h", 5_400.0),
            (".5s", 0.5),
            ("1.s", 1.0),
            ("300ms", 0.3),
            ("250us", 0.000_25),
            ("250µs", 0.000_25),
            ("7ns", 0.000_000_007),
            ("+30m", 1_800.0),
        ] {
            assert_eq!(
                parse_go_duration(text),
                Some(Duration::from_secs_f64(seconds)),
                "{text}"
            );
        }
        for text in [
            "",
            "+",
            "30",
            "-5m",
            "m",
            ".",
            ".s",
            "1x",
            "1h-5m",
            "1h 5m",
            " 1h",
            "forever",
            "Never",
            "1d",
            "٣s",
            "99999999999999h",
            "--1s",
            "1..5s",
        ] {
            assert_eq!(parse_go_duration(text), None, "{text}");
        }
    }

    proptest! {
        #[test]
        fn whole_hours_minutes_and_seconds_add_up(h in 0_u64..100_000, m in 0_u64..60, s in 0_u64..60) {
            prop_assert_eq!(
                parse_go_duration(&format!("{h}h{m}m{s}s")),
                Some(Duration::from_secs(h * 3600 + m * 60 + s))
            );
        }

        #[test]
        fn no_text_panics(text in "\\PC*") {
            let _ = parse_go_duration(&text);
        }
    }
}
