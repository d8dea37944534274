//! Who runs this process, for commits that a person answers for.

/// `user@host`. A user without a name in the environment is a number.
#[must_use]
pub fn who() -> String {
    let named = ["USER", "LOGNAME"].iter().find_map(|name| std::env::var(name).ok().filter(|user| !user.is_empty()));
    let user = named.unwrap_or_else(|| format!("uid {}", uid()));
    let host = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
    match host.trim() {
        "" => user,
        host => format!("{user}@{host}"),
    }
}

fn uid() -> u32 {
    #[allow(unsafe_code, reason = "std does not tell the user's number")]
    // SAFETY: `getuid` takes nothing and always succeeds.
    unsafe {
        libc::getuid()
    }
}

#[cfg(test)]
mod tests {
    #[test]
    fn somebody_is_named() {
        assert!(!super::who().is_empty());
    }
}
