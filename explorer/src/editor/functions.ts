// Functions of the query language by topic, for completion and highlighting. A test compares them with
// the list in COMPAT.md, which is made from the server's registry.

export const FUNCTIONS: Readonly<Record<string, readonly string[]>> = {
  aggregate: [
    "AVG", "COUNT", "COUNTIF", "MAKELIST", "MAKESET", "MAX", "MIN", "SUM",
  ],
  array: [
    "ARRAY_AVG", "ARRAY_CONCAT", "ARRAY_CONTAINS", "ARRAY_CONTAINS_ALL", "ARRAY_CONTAINS_ANY", "ARRAY_LENGTH",
    "ARRAY_MAX", "ARRAY_MEDIAN", "ARRAY_MIN", "ARRAY_SLICE", "ARRAY_SUM", "CHOOSE", "SetDifference", "SetEqual",
    "SetIntersect", "SetUnion",
  ],
  "date and time": [
    "AGO", "DAY", "DateTimeAdd", "DateTimeBin", "DateTimeDiff", "DateTimeFormat", "DateTimeFromParts",
    "DateTimePart", "DateTimeToTicks", "DateTimeToTimestamp", "GetCurrentDateTime", "GetCurrentDateTimeStatic",
    "GetCurrentTicks", "GetCurrentTicksStatic", "GetCurrentTimestamp", "GetCurrentTimestampStatic", "MONTH", "NOW",
    "TicksToDateTime", "TimestampToDateTime", "YEAR",
  ],
  "full text": [
    "FullTextContains", "FullTextContainsAll", "FullTextContainsAny", "FullTextScore", "RRF",
  ],
  mathematical: [
    "ABS", "ACOS", "ASIN", "ATAN", "ATN2", "CEILING", "COS", "COT", "DEGREES", "EXP", "FLOOR", "IntAdd",
    "IntBitAnd", "IntBitLeftShift", "IntBitNot", "IntBitOr", "IntBitRightShift", "IntBitXor", "IntDiv", "IntMod",
    "IntMul", "IntSub", "LOG", "LOG10", "NumberBin", "PI", "POWER", "RADIANS", "RAND", "ROUND", "SIGN", "SIN",
    "SQRT", "SQUARE", "TAN", "TRUNC",
  ],
  "object and item": [
    "DOCUMENTID", "IIF", "ObjectToArray",
  ],
  spatial: [
    "ST_AREA", "ST_DISTANCE", "ST_INTERSECTS", "ST_ISVALID", "ST_ISVALIDDETAILED", "ST_WITHIN",
  ],
  string: [
    "CONCAT", "CONTAINS", "CONTAINS_ALL_CI", "CONTAINS_ALL_CS", "CONTAINS_ANY_CI", "CONTAINS_ANY_CS",
    "ContainsAllCi", "ContainsAllCs", "ContainsAnyCi", "ContainsAnyCs", "ENDSWITH", "INDEX_OF", "LASTINDEXOF",
    "LEFT", "LENGTH", "LOWER", "LTRIM", "LastSubstringAfter", "LastSubstringBefore", "REPLACE", "REPLICATE",
    "REVERSE", "RIGHT", "RTRIM", "RegexExtract", "RegexExtractAll", "RegexMatch", "STARTSWITH", "SUBSTRING",
    "StringEquals", "StringJoin", "StringSplit", "StringToArray", "StringToBoolean", "StringToNull",
    "StringToNumber", "StringToObject", "SubstringAfter", "SubstringBefore", "TRIM", "ToString", "UPPER",
  ],
  "type checking": [
    "IS_ARRAY", "IS_BOOL", "IS_BOOLEAN", "IS_DATETIME", "IS_DEFINED", "IS_FINITE_NUMBER", "IS_INTEGER", "IS_NULL", "IS_NUMBER",
    "IS_OBJECT", "IS_PRIMITIVE", "IS_STRING",
  ],
  vector: [
    "VectorDistance",
  ],
};
