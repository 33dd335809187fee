//! What an offer says about throttling beside its throughput: whether it is enforced, and the
//! throughput buckets. Both stand in the offer's content, where a client that replaces the container
//! never touches them and one that replaces the throughput sends them back or leaves them out, which
//! changes nothing.

use orrery_types::{Error, Object, Result, Value, limits};

use crate::catalog::offer::Throughput;
use crate::catalog::resource::object;

/// Ours: whether requests that exceed the throughput are refused, whatever the server's setting.
const ENFORCED: &str = "orreryEnforced";
/// As the service's management interface calls them.
const BUCKETS: &str = "throughputBuckets";
const BUCKET_PERCENT: &str = "maxThroughputPercentage";

/// What an offer grants, and how it is watched over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ThroughputTerms {
    pub(crate) throughput: Throughput,
    /// `None` leaves it to the server's setting.
    pub(crate) enforced: Option<bool>,
    /// The most that each throughput bucket may use, in percent.
    pub(crate) buckets: [Option<u8>; limits::THROUGHPUT_BUCKETS_MAX],
}

impl ThroughputTerms {
    pub(crate) fn of(throughput: Throughput) -> Self {
        Self { throughput, enforced: None, buckets: [None; limits::THROUGHPUT_BUCKETS_MAX] }
    }

    /// Reads what content says beside the throughput.
    pub(crate) fn parse(throughput: Throughput, content: &Value) -> Result<Self> {
        let unset = Self::of(throughput);
        unset.changed(throughput, content)
    }

    /// The same with another throughput and what new content says; what it leaves out stays.
    pub(crate) fn changed(self, throughput: Throughput, content: &Value) -> Result<Self> {
        let enforced = match content.get(ENFORCED) {
            Value::Undefined => self.enforced,
            Value::Null => None,
            Value::Bool(enforced) => Some(*enforced),
            other => {
                return Err(Error::invalid(format!(
                    "{ENFORCED} must be true, false or null; it is {}.",
                    other.to_json()
                )));
            }
        };
        let buckets = match content.get(BUCKETS) {
            Value::Undefined => self.buckets,
            Value::Null => Self::of(throughput).buckets,
            Value::Array(list) => read_buckets(list)?,
            other => {
                let shown = other.to_json();
                return Err(Error::invalid(format!("{BUCKETS} must be an array; it is {shown}.")));
            }
        };
        Ok(Self { throughput, enforced, buckets })
    }

    /// Adds to content what it says beside the throughput.
    pub(crate) fn write(&self, content: &mut Object) {
        if let Some(enforced) = self.enforced {
            content.set(ENFORCED, enforced.into());
        }
        let bucket = |(id, percent): (i64, &Option<u8>)| {
            let percent = i64::from((*percent)?);
            Some(Value::object(object([("id", id.into()), (BUCKET_PERCENT, percent.into())])))
        };
        let buckets: Vec<Value> = (1_i64..).zip(&self.buckets).filter_map(bucket).collect();
        if !buckets.is_empty() {
            content.set(BUCKETS, Value::array(buckets));
        }
    }

    pub(crate) fn has_buckets(&self) -> bool {
        self.buckets.iter().any(Option::is_some)
    }

    pub(super) fn percent_of(&self, bucket: u8) -> Option<u8> {
        *self.buckets.get(usize::from(bucket).checked_sub(1)?)?
    }

    /// Request units a second at the most.
    #[expect(clippy::cast_precision_loss, reason = "throughput is bounded")]
    pub(super) fn rate(&self) -> f64 {
        self.throughput.max() as f64
    }
}

fn read_buckets(list: &[Value]) -> Result<[Option<u8>; limits::THROUGHPUT_BUCKETS_MAX]> {
    let mut buckets = [None; limits::THROUGHPUT_BUCKETS_MAX];
    for given in list {
        let number = |name: &str, max: i64| {
            let number = given.get(name).as_i64().filter(|n| (1..=max).contains(n));
            number.and_then(|n| u8::try_from(n).ok()).ok_or_else(|| {
                Error::invalid(format!(
                    "A throughput bucket must have an '{name}' from 1 to {max}; there is {}.",
                    given.to_json()
                ))
            })
        };
        let id = number("id", 5)?;
        let percent = number(BUCKET_PERCENT, 100)?;
        let place = buckets.get_mut(usize::from(id) - 1);
        let place = place.ok_or_else(|| Error::internal("a bucket has no place"))?;
        if place.replace(percent).is_some() {
            return Err(Error::invalid(format!("There are two throughput buckets {id}.")));
        }
    }
    Ok(buckets)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(json: &str) -> Result<ThroughputTerms> {
        ThroughputTerms::parse(Throughput::Manual(400), &Value::parse(json.as_bytes()).unwrap())
    }

    #[test]
    fn terms_are_read_and_written_back() {
        let json = r#"{"orreryEnforced":true,"throughputBuckets":[{"id":2,"maxThroughputPercentage":30}]}"#;
        let terms = parse(json).unwrap();
        assert_eq!(
            (terms.enforced, terms.percent_of(2), terms.percent_of(1)),
            (Some(true), Some(30), None)
        );
        let mut content = Object::new();
        terms.write(&mut content);
        assert_eq!(Value::object(content).to_json(), json);
        let kept = terms.changed(Throughput::Manual(500), &Value::parse(b"{}").unwrap()).unwrap();
        assert_eq!((kept.enforced, kept.buckets), (terms.enforced, terms.buckets));
        let cleared = br#"{"orreryEnforced":null,"throughputBuckets":null}"#;
        let cleared = terms.changed(Throughput::Manual(500), &Value::parse(cleared).unwrap());
        assert_eq!(cleared, Ok(ThroughputTerms::of(Throughput::Manual(500))));
    }

    #[test]
    fn what_is_wrong_is_refused() {
        for bad in [
            r#"{"orreryEnforced":1}"#,
            r#"{"throughputBuckets":{}}"#,
            r#"{"throughputBuckets":[{"id":0,"maxThroughputPercentage":30}]}"#,
            r#"{"throughputBuckets":[{"id":6,"maxThroughputPercentage":30}]}"#,
            r#"{"throughputBuckets":[{"id":1,"maxThroughputPercentage":0}]}"#,
            r#"{"throughputBuckets":[{"id":1,"maxThroughputPercentage":101}]}"#,
            r#"{"throughputBuckets":[{"id":1}]}"#,
            r#"{"throughputBuckets":[{"id":1,"maxThroughputPercentage":1},{"id":1,"maxThroughputPercentage":2}]}"#,
        ] {
            assert!(parse(bad).is_err(), "{bad}");
        }
    }
}
