//! The admin port: `/metrics` for Prometheus, `/healthz` and `/readyz` for schedulers.
//!
//! None of them asks Kafka or the store: a probe must not fail because a service does.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use axum::http::StatusCode;
use axum::{Router, routing::get};
use metrics_exporter_prometheus::PrometheusHandle;

/// Whether the job has its table and its place in the group.
#[derive(Clone, Default)]
pub struct Ready(Arc<AtomicBool>);

impl Ready {
    /// From now on `/readyz` says 200, or 503 again.
    pub fn set(&self, ready: bool) {
        self.0.store(ready, Ordering::Relaxed);
    }

    fn get(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }
}

/// The admin port can't be opened.
#[derive(Debug, thiserror::Error)]
#[error("can't listen on {address}: {source}; choose another --admin address")]
pub struct AdminError {
    address: SocketAddr,
    source: std::io::Error,
}

/// Serves until the process ends. Listens before it returns.
///
/// # Errors
/// When the address can't be had.
pub async fn serve(address: SocketAddr, metrics: PrometheusHandle, ready: Ready) -> Result<(), AdminError> {
    let listener = tokio::net::TcpListener::bind(address).await.map_err(|source| AdminError { address, source })?;
    tracing::info!("admin port at http://{address}: /metrics /healthz /readyz");
    let app = Router::new()
        .route(
            "/",
            get(|| async { concat!("lakeward ", env!("CARGO_PKG_VERSION"), "\n/metrics\n/healthz\n/readyz\n") }),
        )
        .route("/healthz", get(|| async { "ok\n" }))
        .route("/readyz", get(move || async move { readiness(&ready) }))
        .route("/metrics", get(move || async move { metrics.render() }));
    tokio::spawn(async move {
        if let Err(error) = axum::serve(listener, app).await {
            tracing::error!("the admin port ended: {error}");
        }
    });
    Ok(())
}

fn readiness(ready: &Ready) -> (StatusCode, &'static str) {
    if ready.get() {
        (StatusCode::OK, "ready\n")
    } else {
        (StatusCode::SERVICE_UNAVAILABLE, "not ready: not reading yet (no partitions, no table, or no topic)\n")
    }
}
