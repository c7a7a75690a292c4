//! Accepts connections and speaks HTTP/1.1 and HTTP/2 on them. Knows nothing of streams.
//!
//! Heads have a size and a time limit; hyper answers what exceeds them before it closes. An error of
//! `accept` (no descriptors left, say) is counted and waited out, never the end. At the end no new request
//! is taken, those under way get their time. Next: `mod.rs`.

use crate::http::counters::Gauge;
use crate::http::{Frontend, Options};
use headwater_env::{Connection, Listener};
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use hyper_util::server::conn::auto::Builder;
use hyper_util::server::graceful::GracefulShutdown;
use std::convert::Infallible;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

/// Serves until the front end is told to stop, then lets requests end.
pub async fn listen(listener: Box<dyn Listener>, frontend: Frontend) {
    let shared = frontend.shared.clone();
    let builder = builder(&shared.options);
    let graceful = GracefulShutdown::new();
    let mut stop = shared.stop.subscribe();
    loop {
        let accepted = tokio::select! {
            biased;
            _ = stop.wait_for(|stop| *stop) => break,
            accepted = listener.accept() => accepted,
        };
        match accepted {
            Ok((connection, _)) => serve(connection, &builder, &graceful, frontend.clone()),
            Err(error) => {
                let times = shared.counters.accept_errors.fetch_add(1, Relaxed) + 1;
                if times.is_power_of_two() {
                    tracing::warn!(%error, times, "cannot accept a connection");
                }
                shared.env.clock.sleep(ACCEPT_PAUSE).await;
            }
        }
    }
    drop(listener);
    shared.env.timeout(shared.options.drain_timeout, graceful.shutdown()).await;
}

/// After an error of `accept`: long enough for a descriptor to come free.
const ACCEPT_PAUSE: Duration = Duration::from_millis(50);

fn builder(options: &Options) -> Builder<TokioExecutor> {
    let mut builder = Builder::new(TokioExecutor::new());
    builder
        .http1()
        .timer(TokioTimer::new())
        .header_read_timeout(options.head_time)
        .max_buf_size(options.max_head);
    builder
        .http2()
        .timer(TokioTimer::new())
        .max_header_list_size(u32::try_from(options.max_head).unwrap_or(u32::MAX))
        .max_concurrent_streams(256)
        .keep_alive_interval(Duration::from_secs(20))
        .keep_alive_timeout(Duration::from_secs(20));
    builder
}

fn serve(
    connection: Box<dyn Connection>,
    builder: &Builder<TokioExecutor>,
    graceful: &GracefulShutdown,
    frontend: Frontend,
) {
    let counters = frontend.shared.counters.clone();
    counters.accepted.fetch_add(1, Relaxed);
    let open = Gauge::new(&counters, |c| &c.connections);
    let service = service_fn(move |request: http::Request<Incoming>| {
        let frontend = frontend.clone();
        async move { Ok::<_, Infallible>(frontend.handle(request).await) }
    });
    let serving = graceful.watch(builder.serve_connection(TokioIo::new(connection), service).into_owned());
    tokio::spawn(async move {
        let _open = open;
        if let Err(error) = serving.await {
            tracing::debug!(%error, "connection ended");
        }
    });
}
