//! Runs requests. What may wait for the disk runs on a blocking thread; a point read and the catalog in
//! memory are answered in place, since handing them over would cost more than they do. A write of one
//! item is prepared in place too, and its commit awaited.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use http::Method;
use orrery_types::Error;
use tokio::time::Instant;

use crate::api::{Api, Shared};
use crate::call::{Call, Charged, Marks};
use crate::dispatch::{self, Work};
use crate::service::{Answer, MaybeFuture, Request, Service};
use crate::statistics::Seen;
use crate::wire::error;

impl Service for Api {
    fn call(self: &Arc<Self>, request: Request) -> MaybeFuture<Answer> {
        let began = Instant::now();
        let (activity_id, uri) = (request.activity_id, request.path_and_query.clone());
        let mut call = match Call::read(self.own(), request) {
            Ok(call) => call,
            Err(error) => {
                let response = error::response(&error, activity_id, uri.as_str());
                return MaybeFuture::Ready(Answer {
                    response,
                    operation: "other",
                    charge: 0.0,
                    is_authenticated: false,
                });
            }
        };
        let ending = Ending {
            began,
            name: dispatch::name(&call.link.target),
            operation: dispatch::statistic(&call),
            is_head: call.request.method == Method::HEAD,
        };
        let work = dispatch::work(&call);
        let in_place = match work {
            Work::InPlace => Some(call.answer()),
            Work::IfCheap => call.answer_if_cheap(),
            Work::Commit | Work::Blocking => None,
        };
        if let Some(charged) = in_place {
            return MaybeFuture::Ready(ending.answer(charged, &call.shared, &call.marks));
        }
        let shared = call.shared.clone();
        let leaving = Leaving(Arc::clone(call.left.insert(Arc::default())));
        MaybeFuture::boxed(async move {
            let _leaving = leaving;
            if work == Work::Commit
                && let Some(charged) = call.commit().await
            {
                return ending.answer(charged, &shared, &call.marks);
            }
            // The count of blocking threads is the bound on operations at once; more wait.
            let blocking = shared.blocking.spawn_blocking(move || (call.answer(), call.marks));
            let (charged, marks) = blocking.await.unwrap_or_else(|_| {
                let panicked = Error::internal("an operation panicked");
                let response = error::response(&panicked, activity_id, uri.as_str());
                ((response, 0.0), Marks::default())
            });
            ending.answer(charged, &shared, &marks)
        })
    }

    fn is_writable(&self) -> bool {
        self.shared.engine.is_writable()
    }
}

/// Tells those who work on a request that nobody waits for the answer, when it goes before they end.
struct Leaving(Arc<AtomicBool>);

impl Drop for Leaving {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// What is done with every answer.
struct Ending {
    began: Instant,
    name: &'static str,
    operation: &'static str,
    is_head: bool,
}

impl Ending {
    fn answer(self, charged: Charged, shared: &Shared, marks: &Marks) -> Answer {
        let (mut response, charge) = charged;
        let statistics = &shared.statistics;
        if statistics.is_on() {
            statistics.record(&Seen {
                container: marks.container.get().map(|c| (c.rid(), c.alt_link())),
                operation: self.operation,
                shape: marks.shape.get(),
                status: response.status(),
                charge,
                took: self.began.elapsed(),
            });
        }
        if self.is_head {
            *response.body_mut() = http_body_util::Full::default();
        }
        Answer { response, operation: self.name, charge, is_authenticated: true }
    }
}
