//! Verifications that run beside requests, because they may take long: one for each database at a time.
//! Whoever asks sees how far the last one is, or what it has found.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;

use orrery_types::ids::Address;
use orrery_types::{Error, Lsn, Result};

use super::verification_record::StoredVerification;
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
        let claimed = match engine.model_verification().claim(found.number) {
            Ok(Claim::Own(version)) => version,
            other => {
                lock(&engine.verifications.jobs).remove(&found.number);
                return other.map(|_| Verification::Running(0));
            }
        };
        let (own_engine, address, own) = (engine.clone(), database.clone(), job.clone());
        let number = found.number;
        let thread = std::thread::Builder::new().name("orrery-verify".into()).spawn(move || {
            let verification = own_engine.model_verification();
            let result = verification.verify_watched(&address, &own.progress);
            verification.publish(number, claimed, &result);
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
        let own = job.map(|job| job.state());
        if let Some(running @ Verification::Running(_)) = own {
            return Ok(running);
        }
        match self.stored(found.number)? {
            Some((_, stored)) => self.state_of(stored),
            None => own.ok_or(Error::NotFound),
        }
    }

    /// Notes on a shared store that this node verifies a database, unless another one does.
    fn claim(self, database: u32) -> Result<Claim> {
        let Some(node) = self.engine.nodes.number() else { return Ok(Claim::Own(None)) };
        let stored = self.stored(database)?;
        let before = stored.as_ref().map(|(version, _)| *version);
        let elsewhere = stored.filter(|(_, stored)| stored.node != node);
        if let Some((_, stored)) = elsewhere
            && matches!(self.state_of(stored)?, Verification::Running(_))
        {
            return Ok(Claim::Elsewhere);
        }
        let running = StoredVerification { node, result: None };
        let version = self.put_stored(database, before, &running)?;
        Ok(version.map_or(Claim::Elsewhere, |version| Claim::Own(Some(version))))
    }

    /// Stores what a verification has found, unless another one has begun since.
    fn publish(self, database: u32, claimed: Option<Lsn>, result: &Result<Verified>) {
        let Some((node, claimed)) = self.engine.nodes.number().zip(claimed) else { return };
        let result = result.clone().map_err(|error| error.to_string());
        let stored = StoredVerification { node, result: Some(result) };
        if let Err(error) = self.put_stored(database, Some(claimed), &stored) {
            tracing::warn!(%error, "other nodes do not learn what a verification has found");
        }
    }
}

/// Who verifies a database.
enum Claim {
    /// This node, and the version of the record that says so, on a shared store.
    Own(Option<Lsn>),
    Elsewhere,
}
