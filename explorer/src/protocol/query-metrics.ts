// What the server says about the work of a query, out of its metrics header.

export interface QueryMetric {
  name: string;
  value: number;
  unit: "ms" | "bytes" | "";
}

const LABELS: Readonly<Record<string, string>> = {
  totalExecutionTimeInMs: "total",
  queryCompileTimeInMs: "compile",
  queryLogicalPlanBuildTimeInMs: "logical plan",
  queryPhysicalPlanBuildTimeInMs: "physical plan",
  queryOptimizationTimeInMs: "optimize",
  VMExecutionTimeInMs: "execute",
  indexLookupTimeInMs: "index lookup",
  documentLoadTimeInMs: "item load",
  systemFunctionExecuteTimeInMs: "built-in functions",
  userFunctionExecuteTimeInMs: "user-defined functions",
  writeOutputTimeInMs: "response write",
  instructionCount: "instructions",
  retrievedDocumentCount: "items loaded",
  retrievedDocumentSize: "size of items loaded",
  outputDocumentCount: "rows",
  outputDocumentSize: "size of rows",
  indexUtilizationRatio: "index hit ratio",
};

export function readQueryMetrics(header: string | null): QueryMetric[] {
  const pairs = (header ?? "").split(";").map((pair) => pair.split("="));
  return pairs
    .filter((pair) => pair.length === 2 && pair[1] !== "" && Number.isFinite(Number(pair[1])))
    .map(([name, value]) => ({
      name: LABELS[name!.trim()] ?? name!.trim(),
      value: Number(value),
      unit: name!.endsWith("InMs") ? "ms" : name!.endsWith("Size") ? "bytes" : "",
    }));
}
