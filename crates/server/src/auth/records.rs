//! What an account keeps beside its data where there is no data folder: texts by name, in the store. Keys and the
//! certificate that the server made are such texts.

/// The texts of an account. Errors are sentences for the operator.
pub trait AccountRecords: Send + Sync {
    /// A text, if there is one of the name.
    fn read(&self, name: &str) -> Result<Option<String>, String>;
    /// Keeps a text unless there is one of the name already, and returns the one that is kept.
    fn create(&self, name: &str, text: &str) -> Result<String, String>;
    /// Replaces a text if it is still the one that was read; false if it is not.
    fn replace(&self, name: &str, old: &str, new: &str) -> Result<bool, String>;
    /// Where they are, for messages.
    fn place(&self) -> String;
}

#[cfg(test)]
pub(crate) mod tests {
    use std::collections::HashMap;
    use std::sync::Mutex;

    use super::*;

    /// Records in memory.
    #[derive(Default)]
    pub(crate) struct MemoryRecords(Mutex<HashMap<String, String>>);

    impl AccountRecords for MemoryRecords {
        fn read(&self, name: &str) -> Result<Option<String>, String> {
            Ok(self.0.lock().unwrap().get(name).cloned())
        }

        fn create(&self, name: &str, text: &str) -> Result<String, String> {
            let mut records = self.0.lock().unwrap();
            Ok(records.entry(name.to_owned()).or_insert_with(|| text.to_owned()).clone())
        }

        fn replace(&self, name: &str, old: &str, new: &str) -> Result<bool, String> {
            let mut records = self.0.lock().unwrap();
            match records.get_mut(name) {
                Some(text) if text == old => {
                    new.clone_into(text);
                    Ok(true)
                }
                _ => Ok(false),
            }
        }

        fn place(&self) -> String {
            "memory".into()
        }
    }
}
