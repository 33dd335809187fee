//! Runs requests. Operations that may wait for the disk run on a blocking thread; a point read and reads
//! of the catalog in memory run inline, since a change of threads would cost more than they do. A write
//! of one item is prepared inline too, and its commit awaited.

use std::sync::Arc;

use http::Method;
use orrery_types::{CancellationToken, Error};
use tokio::time::Instant;

use crate::api::{Api, Shared};
use crate::call::{Call, ChargedResponse, Labels};
use crate::dispatch::{self, Placement};
use crate::service::{Answer, MaybeFuture, Request, Service};
use crate::statistics::RequestSample;
use crate::wire::error;

impl Service for Api {
    fn call(self: &Arc<Self>, request: Request) -> MaybeFuture<Answer> {
        let began = Instant::now();
        let (activity_id, uri) = (request.activity_id, request.path_and_query.clone());
        let mut call = match Call::read(self.shared_ref(), request) {
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
        let completion = Completion {
            began,
            name: dispatch::name(&call.link.target),
            operation: dispatch::statistic(&call),
            is_head: call.request.method == Method::HEAD,
        };
        let placement = dispatch::placement(&call);
        let inline = match placement {
            Placement::Inline => Some(call.answer()),
            Placement::InlineQuery => call.answer_if_cheap(),
            Placement::InlineCommit | Placement::Blocking => None,
        };
        if let Some(charged) = inline {
            return MaybeFuture::Ready(completion.answer(charged, &call.shared, &call.labels));
        }
        let shared = call.shared.clone();
        let cancel_on_drop =
            call.cancellation.insert(CancellationToken::default()).cancel_on_drop();
        MaybeFuture::boxed(async move {
            let _cancel_on_drop = cancel_on_drop;
            if placement == Placement::InlineCommit
                && let Some(charged) = call.commit().await
            {
                return completion.answer(charged, &shared, &call.labels);
            }
            // The number of blocking threads bounds the operations at once; more wait.
            let blocking = shared.blocking.spawn_blocking(move || (call.answer(), call.labels));
            let (charged, labels) = blocking.await.unwrap_or_else(|_| {
                let panicked = Error::internal("an operation panicked");
                let response = error::response(&panicked, activity_id, uri.as_str());
                ((response, 0.0), Labels::default())
            });
            completion.answer(charged, &shared, &labels)
        })
    }

    fn is_writable(&self) -> bool {
        self.shared.engine.is_writable()
    }
}

/// What is done with every response.
struct Completion {
    began: Instant,
    name: &'static str,
    operation: &'static str,
    is_head: bool,
}

impl Completion {
    fn answer(self, charged: ChargedResponse, shared: &Shared, labels: &Labels) -> Answer {
        let (mut response, charge) = charged;
        let statistics = &shared.statistics;
        if statistics.is_on() {
            statistics.record(&RequestSample {
                container: labels.container.get().map(|c| (c.rid(), c.alt_link())),
                operation: self.operation,
                shape: labels.shape.get(),
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
