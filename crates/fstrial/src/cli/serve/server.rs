//! The store as pages for a browser: read-only, for this machine unless the user decides otherwise.
//!
//! ```text
//! connection ─► guard: host, method, size ─► route ─► (blocking) open the store, make the page ─► answer
//! ```
//!
//! Every request reopens the store and only to read, so a trial can be written meanwhile. Text from a trial file or a
//! tool's output reaches a page only through templates that escape it; no page but a report has a script, and a report
//! only its own, by hash. One thread answers; a few others make pages.

use super::{
    answer::{self, Answer},
    guard::{self, Names, Refusal},
};
use http_body_util::Full;
use hyper::{
    Method, Request, Response, StatusCode,
    body::{Bytes, Incoming},
    header::{self, HeaderName, HeaderValue},
    server::conn::http1,
    service::service_fn,
};
use hyper_util::{
    rt::{TokioIo, TokioTimer},
    server::graceful::GracefulShutdown,
};
use std::{convert::Infallible, io, net::SocketAddr, path::PathBuf, sync::Arc, time::Duration};
use tokio::{
    net::TcpListener,
    runtime::Runtime,
    signal::unix::{SignalKind, signal},
    sync::Semaphore,
    time::timeout,
};

/// Limit of concurrent connections; more wait to be accepted.
const CONNECTIONS: usize = 64;
/// Limit of pages made concurrently; more wait.
const MAKERS: usize = 2;
/// A request that waits longer than this to be worked on is turned away.
const MAX_WAITING: Duration = Duration::from_secs(30);
/// Time limit of a request's head.
const HEAD: Duration = Duration::from_secs(10);
/// No connection lasts longer, so that one that reads slowly ends as well.
const LIFE: Duration = Duration::from_secs(120);
/// Time limit of pending answers at the end.
const SHUTDOWN_TIME: Duration = Duration::from_secs(5);
/// The largest head of a request, in bytes.
const MAX_HEAD_BYTES: usize = 16 << 10;
/// The most headers of a request.
const MAX_HEADERS: usize = 64;

/// Sent with every answer.
const HEADERS: [(HeaderName, &str); 5] = [
    (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
    (header::X_FRAME_OPTIONS, "DENY"),
    (header::REFERRER_POLICY, "no-referrer"),
    (header::CACHE_CONTROL, "no-store"),
    (HeaderName::from_static("cross-origin-resource-policy"), "same-origin"),
];

/// The served results, and the clients.
#[derive(Debug)]
pub(super) struct SiteState {
    /// The file of the results.
    pub(super) store: PathBuf,
    pub(super) names: Names,
}

/// A server that holds its address.
pub(super) struct Server {
    runtime: Runtime,
    listener: TcpListener,
}

impl Server {
    /// Takes the address.
    ///
    /// # Errors
    /// It is in use, not of this machine, or not allowed.
    pub(super) fn bind(address: SocketAddr) -> io::Result<Self> {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .max_blocking_threads(MAKERS)
            .build()?;
        let listener = runtime.block_on(TcpListener::bind(address))?;
        Ok(Self { runtime, listener })
    }

    /// Its address.
    ///
    /// # Errors
    /// The kernel does not report it.
    pub(super) fn address(&self) -> io::Result<SocketAddr> {
        self.listener.local_addr()
    }

    /// Answers until the process is asked to end.
    ///
    /// # Errors
    /// Signals cannot be received.
    pub(super) fn serve(self, site: SiteState) -> io::Result<()> {
        let Self { runtime, listener } = self;
        let ended = runtime.block_on(accept_all(listener, Arc::new(Service::new(site))));
        // A page without a waiting client need not be awaited.
        runtime.shutdown_background();
        ended
    }
}

async fn accept_all(listener: TcpListener, service: Arc<Service>) -> io::Result<()> {
    let mut interrupt = signal(SignalKind::interrupt())?;
    let mut terminate = signal(SignalKind::terminate())?;
    let mut hangup = signal(SignalKind::hangup())?;
    let graceful = GracefulShutdown::new();
    let places = Arc::new(Semaphore::new(CONNECTIONS));
    let next = async || {
        let place = Arc::clone(&places).acquire_owned().await.expect("it is never closed");
        (listener.accept().await, place)
    };
    loop {
        let (accepted, place) = tokio::select! {
            next = next() => next,
            _ = interrupt.recv() => break,
            _ = terminate.recv() => break,
            _ = hangup.recv() => break,
        };
        let Ok((stream, _)) = accepted else {
            // Out of descriptors, or the peer is gone already: neither may turn into a busy loop.
            tokio::time::sleep(Duration::from_millis(50)).await;
            continue;
        };
        let service = Arc::clone(&service);
        let answer = service_fn(move |request| {
            let service = Arc::clone(&service);
            async move { Ok::<_, Infallible>(service.answer(&request).await) }
        });
        let connection = graceful.watch(limited().serve_connection(TokioIo::new(stream), answer));
        tokio::spawn(async move {
            // Errors of a connection are visible to the peer.
            let _ = timeout(LIFE, connection).await;
            drop(place);
        });
    }
    drop(listener);
    let _ = timeout(SHUTDOWN_TIME, graceful.shutdown()).await;
    Ok(())
}

/// The protocol, with its limits.
fn limited() -> http1::Builder {
    let mut builder = http1::Builder::new();
    builder
        .timer(TokioTimer::new())
        .header_read_timeout(HEAD)
        .max_buf_size(MAX_HEAD_BYTES)
        .max_headers(MAX_HEADERS);
    builder
}

/// State shared by all connections.
struct Service {
    site: SiteState,
    makers: Arc<Semaphore>,
}

impl Service {
    fn new(site: SiteState) -> Self {
        Self { site, makers: Arc::new(Semaphore::new(MAKERS)) }
    }

    async fn answer(&self, request: &Request<Incoming>) -> Response<Full<Bytes>> {
        let answer = match guard::check(request.method(), request.uri(), request.headers(), &self.site.names)
        {
            Ok(request) => self.make(request).await,
            Err(refusal) => refused(refusal),
        };
        respond(answer, request.method() == Method::HEAD)
    }

    /// Makes the answer on a thread that may block.
    async fn make(&self, request: guard::PageRequest) -> Answer {
        let Ok(Ok(place)) = timeout(MAX_WAITING, Arc::clone(&self.makers).acquire_owned()).await else {
            return Answer::text(StatusCode::SERVICE_UNAVAILABLE, "too many concurrent requests; try again");
        };
        let store = self.site.store.clone();
        // It keeps its slot to the end, though the client may leave before: nobody can queue up work.
        let made = tokio::task::spawn_blocking(move || {
            let _place = place;
            answer::answer(&store, &request)
        })
        .await;
        made.unwrap_or_else(|_| {
            Answer::text(
                StatusCode::INTERNAL_SERVER_ERROR,
                "this page cannot be made; that is a bug in fstrial",
            )
        })
    }
}

fn refused(refusal: Refusal) -> Answer {
    Answer::text(refusal.status, refusal.why)
}

fn respond(answer: Answer, only_head: bool) -> Response<Full<Bytes>> {
    let length = answer.body.len();
    let body = if only_head { Bytes::new() } else { Bytes::from(answer.body) };
    let mut response = Response::new(Full::new(body));
    *response.status_mut() = answer.status;
    let headers = response.headers_mut();
    for (name, value) in HEADERS {
        headers.insert(name, HeaderValue::from_static(value));
    }
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static(answer.kind));
    headers.insert(header::CONTENT_LENGTH, HeaderValue::from(length));
    if answer.status == StatusCode::METHOD_NOT_ALLOWED {
        headers.insert(header::ALLOW, HeaderValue::from_static("GET, HEAD"));
    }
    let policy = HeaderValue::try_from(answer.policy).expect("a policy is plain text");
    headers.insert(header::CONTENT_SECURITY_POLICY, policy);
    response
}
