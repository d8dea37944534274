//! Refuses a processor that this build's instructions are not for, before any of them is met.

use lakeward_protocol::ports::Exit;

use crate::failure::Failure;

/// # Errors
/// With what to build instead.
pub fn check() -> Result<(), Failure> {
    #[cfg(all(target_arch = "x86_64", target_feature = "avx2"))]
    {
        let has = std::is_x86_feature_detected!("avx2")
            && std::is_x86_feature_detected!("bmi2")
            && std::is_x86_feature_detected!("fma")
            && std::is_x86_feature_detected!("pclmulqdq");
        if !has {
            return Err(Failure::new(
                Exit::Config,
                "this build needs an x86-64-v3 processor (AVX2, BMI2, FMA) with PCLMULQDQ; on this one, build from source with RUSTFLAGS=\"-C target-cpu=native\"",
            ));
        }
    }
    let _ = Exit::Config;
    Ok(())
}
