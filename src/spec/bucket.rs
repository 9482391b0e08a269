//! Option counts that share a temperature.

/// Which option counts a temperature is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Bucket {
    /// `N`: so many options.
    Exactly(u32),
    /// `A-B`: from so many to so many, both included.
    Between(u32, u32),
    /// `N+`: so many or more.
    AtLeast(u32),
    /// `*`: any number.
    Any,
}

impl Bucket {
    /// Reads the name of a bucket. Counts are one to nine decimal digits and nothing else, a limit a pattern can have too.
    pub(super) fn from_name(name: &str) -> Option<Self> {
        let count = |text: &str| {
            let digits = text.len() <= 9 && text.bytes().all(|byte| byte.is_ascii_digit());
            // No digit at all is no number.
            text.parse().ok().filter(|_| digits)
        };
        if name == "*" {
            return Some(Self::Any);
        }
        if let Some(least) = name.strip_suffix('+') {
            return count(least).map(Self::AtLeast);
        }
        match name.split_once('-') {
            Some((least, most)) => {
                let (least, most) = (count(least)?, count(most)?);
                (least <= most).then_some(Self::Between(least, most))
            }
            None => count(name).map(Self::Exactly),
        }
    }

    /// Its name.
    pub(super) fn name(self) -> String {
        match self {
            Self::Exactly(count) => count.to_string(),
            Self::Between(least, most) => format!("{least}-{most}"),
            Self::AtLeast(least) => format!("{least}+"),
            Self::Any => "*".to_owned(),
        }
    }

    /// The counts from which on, but not below, it holds or holds no more.
    pub(super) fn steps(self) -> [Option<u32>; 2] {
        match self {
            Self::Exactly(count) => [Some(count), count.checked_add(1)],
            Self::Between(least, most) => [Some(least), most.checked_add(1)],
            Self::AtLeast(least) => [Some(least), None],
            Self::Any => [None, None],
        }
    }

    /// Whether it is for `n_options`.
    pub(super) fn holds(self, n_options: usize) -> bool {
        let n = u32::try_from(n_options).unwrap_or(u32::MAX);
        match self {
            Self::Exactly(count) => n == count,
            Self::Between(least, most) => (least..=most).contains(&n),
            Self::AtLeast(least) => n >= least,
            Self::Any => true,
        }
    }

    /// Which kind of bucket is asked first: the narrower ones.
    pub(super) fn order(self) -> u8 {
        match self {
            Self::Exactly(_) => 0,
            Self::Between(..) => 1,
            Self::AtLeast(_) => 2,
            Self::Any => 3,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::Bucket::{self, Any, AtLeast, Between, Exactly};

    #[test]
    fn names() {
        for (name, bucket) in [
            ("2", Some(Exactly(2))),
            ("3-5", Some(Between(3, 5))),
            ("4-4", Some(Between(4, 4))),
            ("11+", Some(AtLeast(11))),
            ("0+", Some(AtLeast(0))),
            ("*", Some(Any)),
            ("", None),
            ("two", None),
            ("3-", None),
            ("-3", None),
            ("+", None),
            ("+3", None),
            ("1-2-3", None),
            ("5-3", None),
            ("3 -5", None),
            ("3\u{2013}5", None),
            ("\u{0663}", None),
            ("999999999", Some(Exactly(999_999_999))),
            ("000000002+", Some(AtLeast(2))),
            ("1000000000", None),
            ("0000000002", None),
            ("2-1000000000", None),
            ("4294967296", None),
            ("**", None),
        ] {
            assert_eq!(Bucket::from_name(name), bucket, "{name:?}");
            assert!(bucket.is_none_or(|bucket| Bucket::from_name(&bucket.name()) == Some(bucket)), "{name:?}");
        }
    }

    #[test]
    fn what_they_hold() {
        let holds = |name: &str| -> Vec<usize> {
            let bucket = Bucket::from_name(name).unwrap();
            [1, 2, 3, 5, 6, 20, usize::MAX].into_iter().filter(|n| bucket.holds(*n)).collect()
        };
        assert_eq!(holds("2"), [2]);
        assert_eq!(holds("2-5"), [2, 3, 5]);
        assert_eq!(holds("6+"), [6, 20, usize::MAX]);
        assert_eq!(holds("*").len(), 7);
    }
}
