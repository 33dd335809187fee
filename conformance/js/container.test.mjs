// Containers: their life, and every property they keep.

import assert from "node:assert/strict";
import { test } from "node:test";
import { fails, scratch, unique } from "./server.mjs";

const place = await scratch();

/** Creates a container with the properties, and gives what a read answers. */
async function kept(properties) {
  const container = await place.container(properties);
  return (await container.read()).resource;
}

test("a container is created, read, listed and deleted", async () => {
  const container = await place.container();
  const { resource, statusCode } = await container.read();
  assert.equal(statusCode, 200);
  for (const name of ["_rid", "_self", "_etag", "_ts", "_docs", "_sprocs", "_triggers", "_udfs"]) {
    assert.ok(name in resource, name);
  }
  const { resources } = await place.database.containers.readAll().fetchAll();
  assert.ok(resources.some(({ id }) => id === container.id));

  await fails(place.database.containers.create({ id: container.id, partitionKey: "/pk" }), 409);
  assert.equal((await container.delete()).statusCode, 204);
  await fails(container.read(), 404);
});

test("what is not given has the documented default", async () => {
  const resource = await kept({});
  assert.deepEqual(resource.partitionKey.paths, ["/pk"]);
  assert.equal(resource.partitionKey.kind, "Hash");
  assert.equal(resource.indexingPolicy.indexingMode, "consistent");
  assert.equal(resource.indexingPolicy.automatic, true);
  assert.deepEqual(resource.indexingPolicy.includedPaths.map(({ path }) => path), ["/*"]);
  assert.deepEqual(resource.indexingPolicy.excludedPaths, [{ path: '/"_etag"/?' }]);
  assert.equal(resource.conflictResolutionPolicy.mode, "LastWriterWins");
  assert.equal(resource.geospatialConfig.type, "Geography");
  assert.ok(!("defaultTtl" in resource));
});

test("a hierarchical partition key is kept", async () => {
  const partitionKey = { paths: ["/tenant", "/user", "/session"], kind: "MultiHash", version: 2 };
  assert.deepEqual((await kept({ partitionKey })).partitionKey, partitionKey);
});

test("the indexing policy is kept", async () => {
  const indexingPolicy = {
    indexingMode: "consistent",
    automatic: true,
    includedPaths: [{ path: "/*" }],
    excludedPaths: [{ path: "/secret/*" }, { path: '/"_etag"/?' }],
    compositeIndexes: [
      [
        { path: "/a", order: "ascending" },
        { path: "/b", order: "descending" },
      ],
    ],
    spatialIndexes: [
      { path: "/place/*", types: ["Point", "Polygon", "MultiPolygon", "LineString"] },
    ],
  };
  const { indexingPolicy: policy } = await kept({ indexingPolicy });
  assert.deepEqual(policy.compositeIndexes, indexingPolicy.compositeIndexes);
  assert.deepEqual(policy.excludedPaths, indexingPolicy.excludedPaths);
  assert.deepEqual(policy.spatialIndexes[0].types.toSorted(), [
    "LineString",
    "MultiPolygon",
    "Point",
    "Polygon",
  ]);
});

test("a container without an index is kept", async () => {
  const indexingPolicy = { indexingMode: "none", automatic: false };
  assert.equal((await kept({ indexingPolicy })).indexingPolicy.indexingMode, "none");
});

test("time to live, unique keys, conflict resolution and geometry are kept", async () => {
  const properties = {
    defaultTtl: 3600,
    uniqueKeyPolicy: { uniqueKeys: [{ paths: ["/a", "/b/c"] }, { paths: ["/d"] }] },
    conflictResolutionPolicy: { mode: "LastWriterWins", conflictResolutionPath: "/rank" },
    geospatialConfig: { type: "Geometry" },
  };
  const resource = await kept(properties);
  assert.equal(resource.defaultTtl, 3600);
  const paths = resource.uniqueKeyPolicy.uniqueKeys.map((key) => key.paths);
  assert.deepEqual(paths, [["/a", "/b/c"], ["/d"]]);
  assert.equal(resource.conflictResolutionPolicy.conflictResolutionPath, "/rank");
  assert.equal(resource.geospatialConfig.type, "Geometry");
});

test("computed properties are kept", async () => {
  const computedProperties = [{ name: "lower", query: "SELECT VALUE LOWER(c.name) FROM c" }];
  assert.deepEqual((await kept({ computedProperties })).computedProperties, computedProperties);
});

test("vector and full-text policies are kept", async () => {
  const vectorEmbeddings = [
    { path: "/v", dataType: "float32", dimensions: 3, distanceFunction: "cosine" },
  ];
  const fullTextPaths = [{ path: "/text", language: "en-US" }];
  const resource = await kept({
    vectorEmbeddingPolicy: { vectorEmbeddings },
    fullTextPolicy: { defaultLanguage: "en-US", fullTextPaths },
    indexingPolicy: {
      includedPaths: [{ path: "/*" }],
      excludedPaths: [{ path: "/v/*" }],
      vectorIndexes: [{ path: "/v", type: "flat" }],
      fullTextIndexes: [{ path: "/text" }],
    },
  });
  assert.deepEqual(resource.vectorEmbeddingPolicy.vectorEmbeddings, vectorEmbeddings);
  assert.deepEqual(resource.fullTextPolicy.fullTextPaths, fullTextPaths);
  assert.equal(resource.indexingPolicy.vectorIndexes[0].type, "flat");
  assert.deepEqual(resource.indexingPolicy.fullTextIndexes, [{ path: "/text" }]);
});

test("a replace changes what may change", async () => {
  const container = await place.container();
  const { resource } = await container.read();
  const replaced = await container.replace({ ...resource, defaultTtl: 60 });
  assert.equal(replaced.statusCode, 200);
  assert.equal(replaced.resource.defaultTtl, 60);
  assert.notEqual(replaced.resource._etag, resource._etag);
  assert.equal((await container.read()).resource.defaultTtl, 60);
});

test("the partition key never changes", async () => {
  const container = await place.container();
  const { resource } = await container.read();
  await fails(container.replace({ ...resource, partitionKey: { paths: ["/other"] } }), 400);
  assert.deepEqual((await container.read()).resource.partitionKey.paths, ["/pk"]);
});

test("policies that make no sense are refused and create nothing", async () => {
  const excluded = { includedPaths: [{ path: "/a/?" }], excludedPaths: [{ path: "/b/?" }] };
  const bad = [
    { defaultTtl: 0 },
    { defaultTtl: -5 },
    { indexingPolicy: excluded },
    { indexingPolicy: { indexingMode: "sometimes" } },
    { partitionKey: { paths: ["/a", "/b", "/c", "/d"], kind: "MultiHash", version: 2 } },
  ];
  for (const properties of bad) {
    const definition = { id: unique("bad"), partitionKey: { paths: ["/pk"] }, ...properties };
    await fails(place.database.containers.create(definition), 400);
    await fails(place.database.container(definition.id).read(), 404);
  }
});
