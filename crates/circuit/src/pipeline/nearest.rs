//! The nearest of the known names, for a name that is not known.

/// The candidate that `name` is most likely a slip of: the fewest letters added, left out, changed or swapped with the
/// next, the case aside; at most one in three, and never all of them. The first of several equals. `None` where nothing
/// is near.
#[must_use]
pub fn nearest<'a>(name: &str, candidates: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let letters: Vec<char> = name.to_lowercase().chars().collect();
    let mut best: Option<(usize, &str)> = None;
    for candidate in candidates {
        let other: Vec<char> = candidate.to_lowercase().chars().collect();
        let longer = letters.len().max(other.len());
        let bound = longer.div_ceil(3).min(longer.saturating_sub(1));
        if letters.len().abs_diff(other.len()) > bound {
            continue;
        }
        let slips = distance(&letters, &other);
        if slips <= bound && best.is_none_or(|(fewest, _)| slips < fewest) {
            best = Some((slips, candidate));
        }
    }
    best.map(|(_, candidate)| candidate)
}

/// `; did you mean X?`, or nothing.
pub(super) fn did_you_mean<'a>(name: &str, candidates: impl IntoIterator<Item = &'a str>) -> String {
    nearest(name, candidates).map_or_else(String::new, |near| format!("; did you mean `{near}`?"))
}

/// Optimal string alignment, three rows at a time.
fn distance(left: &[char], right: &[char]) -> usize {
    let mut before = vec![0; right.len() + 1];
    let mut above: Vec<usize> = (0..=right.len()).collect();
    let mut row = vec![0; right.len() + 1];
    for (i, a) in left.iter().enumerate() {
        row[0] = i + 1;
        for (j, b) in right.iter().enumerate() {
            let changed = above[j] + usize::from(a != b);
            row[j + 1] = changed.min(above[j + 1] + 1).min(row[j] + 1);
            let is_swap = i > 0 && j > 0 && *a == right[j - 1] && left[i - 1] == *b;
            if is_swap {
                row[j + 1] = row[j + 1].min(before[j - 1] + 1);
            }
        }
        std::mem::swap(&mut before, &mut above);
        std::mem::swap(&mut above, &mut row);
    }
    above[right.len()]
}
