//! The admin port: `/` for people, `/metrics` for Prometheus, `/healthz` and `/readyz` for schedulers.
//!
//! None of them asks Kafka or the store: a probe must not fail because a service does.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use axum::http::{StatusCode, header};
use axum::{Router, routing::get};
use metrics_exporter_prometheus::PrometheusHandle;

use page::Page;

pub mod page;

/// Whether the job has its tables and its places in the groups.
#[derive(Clone)]
pub struct Ready {
    parts: Arc<[AtomicBool]>,
    own: usize,
}

impl Default for Ready {
    fn default() -> Self {
        Self { parts: Arc::new([AtomicBool::new(false)]), own: 0 }
    }
}

impl Ready {
    /// A job of several parts: it is ready when each is.
    #[must_use]
    pub fn parts(count: usize) -> Vec<Self> {
        let parts: Arc<[AtomicBool]> = (0..count).map(|_| AtomicBool::new(false)).collect();
        (0..count).map(|own| Self { parts: Arc::clone(&parts), own }).collect()
    }

    /// From now on `/readyz` says 200, if the other parts are ready, or 503 again.
    pub fn set(&self, ready: bool) {
        self.parts[self.own].store(ready, Ordering::Relaxed);
    }

    fn get(&self) -> bool {
        self.parts.iter().all(|part| part.load(Ordering::Relaxed))
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
pub async fn serve(address: SocketAddr, metrics: PrometheusHandle, ready: Ready, page: Page) -> Result<(), AdminError> {
    let listener = tokio::net::TcpListener::bind(address).await.map_err(|source| AdminError { address, source })?;
    tracing::info!("admin port at http://{address}: / /metrics /healthz /readyz");
    let (for_page, for_status, of_page) = (ready.clone(), ready.clone(), page.clone());
    let html =
        move || async move { ([(header::CONTENT_TYPE, "text/html; charset=utf-8")], of_page.html(for_page.get())) };
    let status =
        move || async move { ([(header::CONTENT_TYPE, "application/json")], page.json(for_status.get()).to_string()) };
    let app = Router::new()
        .route("/", get(html))
        .route("/api/status", get(status))
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
