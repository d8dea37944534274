//! Refuses a processor that this build's instructions are not for, before any of them is met.

use crate::failure::Failure;

/// # Errors
/// With what to build instead.
#[cfg(all(target_arch = "x86_64", target_feature = "avx2"))]
pub fn check() -> Result<(), Failure> {
    let has = std::is_x86_feature_detected!("avx2")
        && std::is_x86_feature_detected!("bmi2")
        && std::is_x86_feature_detected!("fma")
        && std::is_x86_feature_detected!("pclmulqdq");
    if has {
        return Ok(());
    }
    Err(Failure::new(
        lakeward_protocol::ports::Exit::Config,
        "this build needs an x86-64-v3 processor (AVX2, BMI2, FMA) with PCLMULQDQ; on this one, build from source with RUSTFLAGS=\"-C target-cpu=native\"",
    ))
}

/// This build asks for nothing beyond its architecture.
///
/// # Errors
/// None.
#[cfg(not(all(target_arch = "x86_64", target_feature = "avx2")))]
pub fn check() -> Result<(), Failure> {
    Ok(())
}
