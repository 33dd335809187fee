//! Verifications that run beside requests, because they may take long: one for each database at a time.
//! Whoever asks sees how far the last one is, or what it has found.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;

use orrery_types::ids::Address;
use orrery_types::{Error, Result};

use super::verify::{VerificationProgress, Verified};
use crate::Engine;
use crate::model::verify::ModelVerification;

/// How it is with the last verification of a database.
#[derive(Clone, Debug)]
pub enum Verification {
    /// It runs, and has looked at so many percent.
    Running(u64),
    /// It has ended.
    Ended(Result<Verified>),
}

/// One that runs or has run.
#[derive(Default)]
struct Job {
    progress: VerificationProgress,
    result: Mutex<Option<Result<Verified>>>,
}

impl Job {
    fn state(&self) -> Verification {
        match &*lock(&self.result) {
            None => Verification::Running(self.progress.percent()),
            Some(result) => Verification::Ended(result.clone()),
        }
    }
}

/// The last of each database, by its number, and the threads of those that may still run.
#[derive(Default)]
pub(crate) struct Verifications {
    jobs: Mutex<BTreeMap<u32, Arc<Job>>>,
    threads: Mutex<Vec<JoinHandle<()>>>,
}

impl Verifications {
    /// Ends those that run.
    pub(crate) fn stop(&self) {
        for job in lock(&self.jobs).values() {
            job.progress.cancel();
        }
        let threads = std::mem::take(&mut *lock(&self.threads));
        for thread in threads {
            // A panic in there was reported where it happened.
            drop(thread.join());
        }
    }
}

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl ModelVerification<'_> {
    /// Starts to verify what the model of a database promises, unless that is being done already.
    pub fn start(engine: &Arc<Engine>, database: &Address) -> Result<Verification> {
        let found = engine.catalog.database(database).map_err(|_| Error::OwnerNotFound)?;
        if found.model.is_none() {
            return Err(Error::NotFound);
        }
        let job = {
            let mut jobs = lock(&engine.verifications.jobs);
            if let Some(job) = jobs.get(&found.number)
                && let running @ Verification::Running(_) = job.state()
            {
                return Ok(running);
            }
            let job = Arc::<Job>::default();
            jobs.insert(found.number, job.clone());
            job
        };
        let (own_engine, address, own) = (engine.clone(), database.clone(), job.clone());
        let thread = std::thread::Builder::new().name("orrery-verify".into()).spawn(move || {
            let result = own_engine.model_verification().verify_watched(&address, &own.progress);
            *lock(&own.result) = Some(result);
        });
        match thread {
            Ok(thread) => {
                let mut threads = lock(&engine.verifications.threads);
                threads.retain(|thread| !thread.is_finished());
                threads.push(thread);
            }
            Err(error) => {
                let error = Error::internal(format!("no thread for a verification: {error}"));
                *lock(&job.result) = Some(Err(error.clone()));
                return Err(error);
            }
        }
        Ok(job.state())
    }

    /// How the last verification of a database is.
    pub fn newest(self, database: &Address) -> Result<Verification> {
        let found = self.engine.catalog.database(database).map_err(|_| Error::OwnerNotFound)?;
        let job = lock(&self.engine.verifications.jobs).get(&found.number).cloned();
        job.map(|job| job.state()).ok_or(Error::NotFound)
    }
}
