//! Memory that is about to be written in full.

/// Asks the system to provide the pages of `values` at once. A page that is missing when it is first written costs a trap
/// of its own, and under a hypervisor traps are most of what laying out weights costs. Nothing changes where the system
/// cannot.
pub fn provide<T>(values: &mut [T]) {
    #[cfg(target_os = "linux")]
    {
        // Where pages are larger the system may refuse the range.
        const PAGE: usize = 4096;
        if values.is_empty() {
            return;
        }
        let start = values.as_mut_ptr().addr() / PAGE * PAGE;
        let end = (values.as_mut_ptr().addr() + size_of_val(values)).next_multiple_of(PAGE);
        let first = values.as_mut_ptr().cast::<u8>().wrapping_sub(values.as_mut_ptr().addr() - start);
        // SAFETY: every page of the range holds a byte of `values`, so it is mapped and writable; to populate it changes
        // no byte of it. A refusal is no error: the pages then come one by one.
        let _ = unsafe { libc::madvise(first.cast(), end - start, libc::MADV_POPULATE_WRITE) };
    }
    #[cfg(not(target_os = "linux"))]
    let _ = values;
}

#[cfg(test)]
mod tests {
    use super::provide;

    #[test]
    fn what_is_there_stays() {
        for n in [0, 1, 5000, 100_000] {
            let mut values: Vec<u32> = (0..n).collect();
            let middle = values.len() / 3;
            provide(&mut values[middle..]);
            assert!(values.iter().enumerate().all(|(i, x)| i == *x as usize));
        }
    }
}
