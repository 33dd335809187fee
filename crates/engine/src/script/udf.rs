//! User-defined functions, as queries and the conditions of patches call them. A runtime is lent
//! when the first function is called, so that a query without functions pays nothing.

use std::cell::{OnceCell, RefCell};
use std::collections::HashMap;

use orrery_query::UdfHost;
use orrery_script::Udfs;
use orrery_types::ids::Address;
use orrery_types::{Error, Value};

use super::{ScriptKind, script_error, script_of};
use crate::catalog::records::Record;
use crate::{Container, Engine};

/// The functions of a container during one execution.
pub(crate) struct UdfCalls<'e> {
    engine: &'e Engine,
    container: &'e Container,
    found: RefCell<HashMap<String, Option<Record>>>,
    runtime: OnceCell<Udfs<'e>>,
    failure: RefCell<Option<Error>>,
}

impl<'e> UdfCalls<'e> {
    pub(crate) fn new(engine: &'e Engine, container: &'e Container) -> Self {
        Self {
            engine,
            container,
            found: RefCell::default(),
            runtime: OnceCell::new(),
            failure: RefCell::default(),
        }
    }

    /// Whether the container has the function.
    pub(crate) fn has(&self, name: &str) -> bool {
        let mut found = self.found.borrow_mut();
        if let Some(record) = found.get(name) {
            return record.is_some();
        }
        let address = Address::Name(name.to_owned());
        match self.engine.scripts().record(self.container, ScriptKind::Udf, &address) {
            Ok(record) => {
                found.insert(name.to_owned(), Some(record));
                true
            }
            Err(Error::NotFound) => {
                found.insert(name.to_owned(), None);
                false
            }
            // The store failed; the call will find the same and say so.
            Err(error) => {
                self.failure.replace(Some(error));
                true
            }
        }
    }

    /// Why a function failed, which says more than the query's own error.
    pub(crate) fn failure(&self, otherwise: Error) -> Error {
        self.failure.take().unwrap_or(otherwise)
    }

    fn run(&self, name: &str, arguments: &[Value]) -> Result<Value, Error> {
        if !self.has(name) {
            return Err(Error::invalid(format!("The container has no function 'udf.{name}'.")));
        }
        let found = self.found.borrow();
        let Some(Some(record)) = found.get(name) else {
            return Err(self.failure(Error::internal("a function is not there")));
        };
        let runtime = if let Some(runtime) = self.runtime.get() {
            runtime
        } else {
            let scripts = &self.engine.scripts;
            let udfs = scripts.udfs(scripts.deadline()).map_err(script_error)?;
            self.runtime.get_or_init(|| udfs)
        };
        runtime.call(&script_of(record), arguments).map_err(script_error)
    }
}

impl UdfHost for UdfCalls<'_> {
    fn call(&self, name: &str, arguments: &[Value]) -> Result<Value, String> {
        self.run(name, arguments).map_err(|error| {
            let text = error.to_string();
            self.failure.replace(Some(error));
            text
        })
    }
}
