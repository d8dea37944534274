//! The process's memory: settings that it and page faults hang on, and giving back what is free.
//!
//! Measured on the benchmark's topic: with librdkafka's buffers kept rather than mapped anew for each fetch, a message
//! takes 6 % less CPU time; without transparent huge pages an idle process takes 28 MB in place of 67, for 3 % more.

/// Larger blocks of the C allocator (librdkafka's) are mapped by themselves; glibc refuses more than this.
#[cfg(all(target_os = "linux", target_env = "gnu"))]
const MAPPED_FROM_BYTES: libc::c_int = 32 << 20;
/// What the C allocator keeps at the top of its heap.
#[cfg(all(target_os = "linux", target_env = "gnu"))]
const KEPT_BYTES: libc::c_int = 64 << 20;
/// Heaps of the C allocator: all its threads share one, since `malloc_trim` leaves the end of any other as it is.
#[cfg(all(target_os = "linux", target_env = "gnu"))]
const HEAPS: libc::c_int = 1;

/// Once, before any thread. Best effort: what the system refuses costs speed or memory, nothing else.
pub fn settle() {
    #[cfg(all(target_os = "linux", target_env = "gnu"))]
    #[allow(unsafe_code, reason = "std has no words for these")]
    // SAFETY: plain calls with numbers; no other thread runs yet that could be in the allocator.
    unsafe {
        libc::mallopt(libc::M_ARENA_MAX, HEAPS);
        libc::mallopt(libc::M_MMAP_THRESHOLD, MAPPED_FROM_BYTES);
        libc::mallopt(libc::M_TRIM_THRESHOLD, KEPT_BYTES);
        libc::prctl(libc::PR_SET_THP_DISABLE, 1, 0, 0, 0);
    }
}

/// Ends quietly when whoever reads our output does, as in `lakeward verify TABLE | head`. Not for processes that hold
/// anything: there a broken pipe is an error like any.
pub fn end_with_the_reader() {
    #[allow(unsafe_code, reason = "std ignores SIGPIPE and has no way to have it back")]
    // SAFETY: the default action is no handler of ours.
    unsafe {
        libc::signal(libc::SIGPIPE, libc::SIG_DFL)
    };
}

/// Hands the system what the allocators keep and nobody uses: this thread's share, and what librdkafka and ended
/// threads left. Takes milliseconds; for threads that have nothing to do.
pub fn give_back() {
    #[allow(unsafe_code, reason = "std has no words for these")]
    // SAFETY: plain calls of the two allocators that the program has, from any thread at any time; what is in use
    // stays where it is.
    unsafe {
        mi_collect(true);
        #[cfg(all(target_os = "linux", target_env = "gnu"))]
        libc::malloc_trim(0);
    }
}

/// Keeps free memory for a while before it goes back, for work that frees and takes much in turn, as a circuit's steps
/// do: with it five queries of the Nexmark benchmark took 3 to 16 % less CPU time, and up to a half more memory.
pub fn hold_on() {
    #[allow(unsafe_code, reason = "std has no words for these")]
    // SAFETY: sets a number that the allocator reads.
    unsafe {
        mi_option_set(PURGE_DELAY, HELD_MS);
    }
}

/// `mi_option_purge_delay` of `mimalloc.h`: milliseconds that free memory is kept.
const PURGE_DELAY: libc::c_int = 15;
const HELD_MS: libc::c_long = 5_000;

#[allow(unsafe_code, reason = "the crate that brings the allocator does not wrap it")]
// SAFETY: as `mimalloc.h` declares it; `main.rs` links it as the global allocator.
unsafe extern "C" {
    fn mi_collect(force: bool);
    fn mi_option_set(option: libc::c_int, value: libc::c_long);
    #[cfg(test)]
    fn mi_option_get(option: libc::c_int) -> libc::c_long;
}

#[cfg(test)]
mod tests {
    use super::{HELD_MS, PURGE_DELAY, hold_on, mi_option_get};

    /// The option's number is the header's: before anything is set it has that one's default, unlike its neighbours.
    #[test]
    #[allow(unsafe_code, reason = "as above")]
    fn free_memory_is_held() {
        // SAFETY: reads a number of the allocator's.
        let get = || unsafe { mi_option_get(PURGE_DELAY) };
        assert_eq!(get(), 1_000, "mimalloc's options have moved: look up mi_option_purge_delay");
        hold_on();
        assert_eq!(get(), HELD_MS);
    }
}
