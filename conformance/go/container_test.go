// Containers: their life, and the properties they keep.

package conformance

import (
	"net/http"
	"slices"
	"testing"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore/to"
	"github.com/Azure/azure-sdk-for-go/sdk/data/azcosmos"
)

// kept creates a container and gives what a read answers.
func kept(t *testing.T, change func(*azcosmos.ContainerProperties)) *azcosmos.ContainerProperties {
	t.Helper()
	reply, err := newShelf(t, change).Read(ctx(t), nil)
	check(t, err)
	return reply.ContainerProperties
}

func TestAContainerIsCreatedListedAndDeleted(t *testing.T) {
	database := scratch(t)
	shelf := addShelf(t, database, nil)
	read, err := shelf.Read(ctx(t), nil)
	check(t, err)
	equal(t, read.ContainerProperties.ID, shelf.ID())
	if read.ContainerProperties.ResourceID == "" || read.ContainerProperties.ETag == nil {
		t.Fatalf("system properties are missing: %+v", read.ContainerProperties)
	}

	var names []string
	pager := database.NewQueryContainersPager("SELECT * FROM root r", nil)
	for pager.More() {
		page, err := pager.NextPage(ctx(t))
		check(t, err)
		for _, each := range page.Containers {
			names = append(names, each.ID)
		}
	}
	equalAll(t, names, []string{shelf.ID()})

	_, err = database.CreateContainer(ctx(t), *read.ContainerProperties, nil)
	fails(t, err, http.StatusConflict)
	_, err = shelf.Delete(ctx(t), nil)
	check(t, err)
	_, err = shelf.Read(ctx(t), nil)
	fails(t, err, http.StatusNotFound)
}

func TestAHierarchicalPartitionKeyIsKept(t *testing.T) {
	key := kept(t, func(c *azcosmos.ContainerProperties) {
		c.PartitionKeyDefinition = azcosmos.PartitionKeyDefinition{
			Kind:    azcosmos.PartitionKeyKindMultiHash,
			Paths:   []string{"/tenant", "/user", "/session"},
			Version: 2,
		}
	}).PartitionKeyDefinition
	equal(t, key.Kind, azcosmos.PartitionKeyKindMultiHash)
	equalAll(t, key.Paths, []string{"/tenant", "/user", "/session"})
	equal(t, key.Version, 2)
}

func TestTheIndexingPolicyIsKept(t *testing.T) {
	policy := kept(t, func(c *azcosmos.ContainerProperties) {
		c.IndexingPolicy = &azcosmos.IndexingPolicy{
			Automatic:     true,
			IndexingMode:  azcosmos.IndexingModeConsistent,
			IncludedPaths: []azcosmos.IncludedPath{{Path: "/*"}},
			ExcludedPaths: []azcosmos.ExcludedPath{{Path: "/secret/*"}},
			CompositeIndexes: [][]azcosmos.CompositeIndex{{
				{Path: "/a", Order: azcosmos.CompositeIndexAscending},
				{Path: "/b", Order: azcosmos.CompositeIndexDescending},
			}},
			SpatialIndexes: []azcosmos.SpatialIndex{{
				Path:         "/place/*",
				SpatialTypes: []azcosmos.SpatialType{azcosmos.SpatialTypePoint, azcosmos.SpatialTypePolygon},
			}},
		}
	}).IndexingPolicy
	equalAll(t, policy.IncludedPaths, []azcosmos.IncludedPath{{Path: "/*"}})
	if !slices.Contains(policy.ExcludedPaths, azcosmos.ExcludedPath{Path: "/secret/*"}) {
		t.Fatalf("excluded paths: %v", policy.ExcludedPaths)
	}
	equal(t, len(policy.CompositeIndexes), 1)
	equalAll(t, policy.CompositeIndexes[0], []azcosmos.CompositeIndex{
		{Path: "/a", Order: azcosmos.CompositeIndexAscending},
		{Path: "/b", Order: azcosmos.CompositeIndexDescending},
	})
	equal(t, policy.SpatialIndexes[0].Path, "/place/*")
}

func TestTimeToLiveAndConflictResolutionAreKept(t *testing.T) {
	properties := kept(t, func(c *azcosmos.ContainerProperties) {
		c.DefaultTimeToLive = to.Ptr[int32](3600)
		c.ConflictResolutionPolicy = &azcosmos.ConflictResolutionPolicy{
			Mode:           azcosmos.ConflictResolutionModeLastWriteWins,
			ResolutionPath: "/rank",
		}
	})
	equal(t, *properties.DefaultTimeToLive, 3600)
	equal(t, properties.ConflictResolutionPolicy.ResolutionPath, "/rank")
}

func TestVectorAndFullTextPoliciesAreKept(t *testing.T) {
	properties := kept(t, func(c *azcosmos.ContainerProperties) {
		c.VectorEmbeddingPolicy = &azcosmos.VectorEmbeddingPolicy{
			VectorEmbeddings: []azcosmos.VectorEmbedding{{
				Path:             "/embedding",
				DataType:         azcosmos.VectorDataTypeFloat32,
				DistanceFunction: azcosmos.VectorDistanceFunctionCosine,
				Dimensions:       8,
			}},
		}
		c.FullTextPolicy = &azcosmos.FullTextPolicy{
			DefaultLanguage: "en-US",
			FullTextPaths:   []azcosmos.FullTextPath{{Path: "/text", Language: "en-US"}},
		}
	})
	equal(t, properties.VectorEmbeddingPolicy.VectorEmbeddings[0].Dimensions, 8)
	equal(t, properties.FullTextPolicy.FullTextPaths[0].Path, "/text")
}

func TestAContainerIsReplacedButItsPartitionKeyStays(t *testing.T) {
	shelf := newShelf(t)
	read, err := shelf.Read(ctx(t), nil)
	check(t, err)
	changed := *read.ContainerProperties
	changed.DefaultTimeToLive = to.Ptr[int32](60)
	replaced, err := shelf.Replace(ctx(t), changed, nil)
	check(t, err)
	equal(t, *replaced.ContainerProperties.DefaultTimeToLive, 60)

	changed.PartitionKeyDefinition.Paths = []string{"/other"}
	_, err = shelf.Replace(ctx(t), changed, nil)
	fails(t, err, http.StatusBadRequest)
}

func TestUniqueKeysAreKeptWithinAPartition(t *testing.T) {
	shelf := newShelf(t, func(c *azcosmos.ContainerProperties) {
		c.UniqueKeyPolicy = &azcosmos.UniqueKeyPolicy{
			UniqueKeys: []azcosmos.UniqueKey{{Paths: []string{"/n"}}},
		}
	})
	shelf.create(item{ID: "1", PK: "a", N: 7})
	_, err := shelf.CreateItem(ctx(t), pk("a"), encode(t, item{ID: "2", PK: "a", N: 7}), nil)
	fails(t, err, http.StatusConflict)
	shelf.create(item{ID: "2", PK: "b", N: 7})
}

func TestAnItemWhoseTimeIsOverIsGone(t *testing.T) {
	shelf := newShelf(t, func(c *azcosmos.ContainerProperties) {
		c.DefaultTimeToLive = to.Ptr[int32](-1)
	})
	shelf.create(item{ID: "stays", PK: "a"})
	shelf.create(item{ID: "goes", PK: "a", TTL: 1})
	limited := ctx(t)
	var err error
	for err == nil {
		_, err = shelf.ReadItem(limited, pk("a"), "goes", nil)
	}
	fails(t, err, http.StatusNotFound)
	shelf.read("stays", "a")
}

func TestThroughputOfAContainerIsReadReplacedAndScaled(t *testing.T) {
	database := scratch(t)
	auto := azcosmos.NewAutoscaleThroughputProperties(4000)
	scaled := addShelf(t, database, &azcosmos.CreateContainerOptions{ThroughputProperties: &auto})
	read, err := scaled.ReadThroughput(ctx(t), nil)
	check(t, err)
	units, isAuto := read.ThroughputProperties.AutoscaleMaxThroughput()
	equal(t, isAuto, true)
	equal(t, units, 4000)

	manual := azcosmos.NewManualThroughputProperties(400)
	fixed := addShelf(t, database, &azcosmos.CreateContainerOptions{ThroughputProperties: &manual})
	replaced, err := fixed.ReplaceThroughput(ctx(t), azcosmos.NewManualThroughputProperties(600), nil)
	check(t, err)
	equal(t, replaced.IsReplacePending, false)
	read, err = fixed.ReadThroughput(ctx(t), nil)
	check(t, err)
	units, isManual := read.ThroughputProperties.ManualThroughput()
	equal(t, isManual, true)
	equal(t, units, 600)
	if read.MinThroughput == nil || *read.MinThroughput > 600 {
		t.Fatalf("the least throughput: %v", read.MinThroughput)
	}
	_, err = fixed.ReplaceThroughput(ctx(t), azcosmos.NewManualThroughputProperties(-1), nil)
	fails(t, err, http.StatusBadRequest)
}
