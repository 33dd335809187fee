//! The types of arguments and results of built-in functions. An argument that cannot have the right type
//! makes a call undefined, whatever the items hold.

use super::types::Types;

/// What a function takes and gives; the last argument stands for all that follow.
pub(super) struct Signature {
    arguments: &'static [Types],
    pub(super) result: Types,
}

impl Signature {
    /// What the argument of that number must be.
    pub(super) fn argument(&self, at: usize) -> Types {
        self.arguments.get(at).or(self.arguments.last()).copied().unwrap_or(Types::ANY)
    }
}

const N: Types = Types::NUMBER;
const S: Types = Types::STRING;
const B: Types = Types::BOOL;
const A: Types = Types::ARRAY;
const O: Types = Types::OBJECT;
const D: Types = Types::DEFINED;
const ANY: Types = Types::ANY;

const fn gives(arguments: &'static [Types], result: Types) -> Signature {
    Signature { arguments, result }
}

/// The type that `IS_…` looks for.
pub(super) fn tested(name: &str) -> Option<Types> {
    Some(match name {
        "IS_ARRAY" => A,
        "IS_BOOL" | "IS_BOOLEAN" => B,
        "IS_DEFINED" => D,
        "IS_NULL" => Types::NULL,
        "IS_NUMBER" => N,
        "IS_OBJECT" => O,
        "IS_PRIMITIVE" => Types::NULL.or(B).or(N).or(S),
        "IS_STRING" => S,
        _ => return None,
    })
}

/// The signature of a function by its documented name, for so many arguments; `None` if nothing is known.
pub(super) fn find(name: &str, count: usize) -> Option<Signature> {
    Some(match name {
        "ABS" | "ACOS" | "ASIN" | "ATAN" | "ATN2" | "CEILING" | "COS" | "COT" | "DEGREES"
        | "EXP" | "FLOOR" | "LOG" | "LOG10" | "NumberBin" | "PI" | "POWER" | "RADIANS" | "RAND"
        | "ROUND" | "SIGN" | "SIN" | "SQRT" | "SQUARE" | "TAN" | "TRUNC" | "IntAdd" | "IntSub"
        | "IntMul" | "IntDiv" | "IntMod" | "IntBitAnd" | "IntBitOr" | "IntBitXor" | "IntBitNot"
        | "IntBitLeftShift" | "IntBitRightShift" => gives(&[N], N),
        "CONCAT"
        | "LOWER"
        | "UPPER"
        | "LTRIM"
        | "RTRIM"
        | "TRIM"
        | "REVERSE"
        | "REPLACE"
        | "LastSubstringAfter"
        | "LastSubstringBefore"
        | "SubstringAfter"
        | "SubstringBefore"
        | "DateTimeFormat" => gives(&[S], S),
        "AGO" | "LEFT" | "NOW" | "RIGHT" | "REPLICATE" | "SUBSTRING" => gives(&[S, N], S),
        "DateTimeDiff" | "LENGTH" | "StringToNumber" => gives(&[S], N),
        "RegexExtract" => gives(&[S, S, S, N], S),
        "RegexExtractAll" => gives(&[S, S, S, N], A),
        "INDEX_OF" | "LASTINDEXOF" => gives(&[S, S, N], N),
        "CONTAINS" | "STARTSWITH" | "ENDSWITH" | "StringEquals" => gives(&[S, S, B], B),
        "CONTAINS_ALL_CI" | "CONTAINS_ALL_CS" | "ContainsAllCi" | "ContainsAllCs"
        | "CONTAINS_ANY_CI" | "CONTAINS_ANY_CS" | "ContainsAnyCi" | "ContainsAnyCs" => {
            // One term of several may be anything.
            if count > 2 { gives(&[S, ANY], B) } else { gives(&[S], B) }
        }
        "FullTextContains" | "RegexMatch" | "StringToBoolean" => gives(&[S], B),
        "StringJoin" => gives(&[A, S], S),
        "StringSplit" | "StringToArray" => gives(&[S], A),
        "StringToNull" => gives(&[S], Types::NULL),
        "StringToObject" => gives(&[S], O),
        "ToString" => gives(&[D], S),
        "ARRAY_CONCAT" | "SetUnion" | "SetIntersect" | "SetDifference" => gives(&[A], A),
        "ARRAY_CONTAINS" => gives(&[A, D, B], B),
        "ARRAY_CONTAINS_ALL" | "ARRAY_CONTAINS_ANY" => gives(&[A, ANY], B),
        "ARRAY_LENGTH" | "ARRAY_SUM" | "ARRAY_AVG" | "ARRAY_MEDIAN" => gives(&[A], N),
        "ARRAY_MIN" | "ARRAY_MAX" => gives(&[A], ANY),
        "ARRAY_SLICE" => gives(&[A, N], A),
        "SetEqual" => gives(&[A], B),
        "CHOOSE" => gives(&[N, ANY], ANY),
        "ObjectToArray" => gives(&[O, ANY], A),
        "DateTimeAdd" => gives(&[S, N, S], S),
        "DateTimeBin" => gives(&[S, S, N, S], S),
        "DateTimePart" | "DateTimeToTicks" | "DateTimeToTimestamp" | "DAY" | "MONTH" | "YEAR" => {
            gives(&[S], N)
        }
        "DateTimeFromParts" | "TicksToDateTime" | "TimestampToDateTime" => gives(&[N], S),
        "GetCurrentDateTime" | "GetCurrentDateTimeStatic" => gives(&[], S),
        "GetCurrentTicks"
        | "GetCurrentTicksStatic"
        | "GetCurrentTimestamp"
        | "GetCurrentTimestampStatic" => gives(&[], N),
        "ST_AREA" | "ST_DISTANCE" => gives(&[O], N),
        "ST_ISVALID" => gives(&[O], B),
        "ST_ISVALIDDETAILED" => gives(&[O], O),
        "IS_DATETIME" | "IS_FINITE_NUMBER" | "IS_INTEGER" | "ST_INTERSECTS" | "ST_WITHIN" => {
            gives(&[ANY], B)
        }
        "FullTextContainsAll" | "FullTextContainsAny" => gives(&[S, ANY], B),
        "DOCUMENTID" => gives(&[D], N),
        _ => return None,
    })
}
