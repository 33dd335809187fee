// Databases: their life, queries over them, and their throughput.

package conformance

import (
	"net/http"
	"slices"
	"testing"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore"
	"github.com/Azure/azure-sdk-for-go/sdk/data/azcosmos"
)

func TestADatabaseIsCreatedReadAndDeleted(t *testing.T) {
	client := connect(t)
	id := unique("go")
	created, err := client.CreateDatabase(ctx(t), azcosmos.DatabaseProperties{ID: id}, nil)
	check(t, err)
	equal(t, created.RawResponse.StatusCode, http.StatusCreated)
	database, err := client.NewDatabase(id)
	check(t, err)

	read, err := database.Read(ctx(t), nil)
	check(t, err)
	equal(t, read.DatabaseProperties.ID, id)
	equal(t, *read.DatabaseProperties.ETag, *created.DatabaseProperties.ETag)
	if read.DatabaseProperties.ResourceID == "" || read.DatabaseProperties.SelfLink == "" {
		t.Fatalf("system properties are missing: %+v", read.DatabaseProperties)
	}
	if read.DatabaseProperties.LastModified.IsZero() || read.RequestCharge <= 0 {
		t.Fatalf("no time or no charge: %+v", read)
	}

	_, err = client.CreateDatabase(ctx(t), azcosmos.DatabaseProperties{ID: id}, nil)
	fails(t, err, http.StatusConflict)
	deleted, err := database.Delete(ctx(t), nil)
	check(t, err)
	equal(t, deleted.RawResponse.StatusCode, http.StatusNoContent)
	_, err = database.Read(ctx(t), nil)
	fails(t, err, http.StatusNotFound)
}

func TestADatabaseIsDeletedOnlyIfItIsAsExpected(t *testing.T) {
	database := scratch(t)
	stale := azcore.ETag("\"00000000-0000-0000-0000-000000000000\"")
	_, err := database.Delete(ctx(t), &azcosmos.DeleteDatabaseOptions{IfMatchEtag: &stale})
	fails(t, err, http.StatusPreconditionFailed)
	_, err = database.Read(ctx(t), nil)
	check(t, err)
}

func TestDatabasesAreFoundByAQuery(t *testing.T) {
	database := scratch(t)
	client := connect(t)
	names := func(query string, parameters ...azcosmos.QueryParameter) (found []string) {
		pager := client.NewQueryDatabasesPager(query,
			&azcosmos.QueryDatabasesOptions{QueryParameters: parameters})
		for pager.More() {
			page, err := pager.NextPage(ctx(t))
			check(t, err)
			for _, each := range page.Databases {
				found = append(found, each.ID)
			}
		}
		return found
	}
	wanted := azcosmos.QueryParameter{Name: "@id", Value: database.ID()}
	equalAll(t, names("SELECT * FROM root r WHERE r.id = @id", wanted), []string{database.ID()})
	if !slices.Contains(names("SELECT * FROM root r"), database.ID()) {
		t.Fatal("the list of databases lacks one")
	}
}

func TestThroughputOfADatabaseIsReadAndReplaced(t *testing.T) {
	client := connect(t)
	id := unique("go")
	manual := azcosmos.NewManualThroughputProperties(500)
	_, err := client.CreateDatabase(ctx(t), azcosmos.DatabaseProperties{ID: id},
		&azcosmos.CreateDatabaseOptions{ThroughputProperties: &manual})
	check(t, err)
	database, err := client.NewDatabase(id)
	check(t, err)
	t.Cleanup(func() { database.Delete(ctx(t), nil) })

	read, err := database.ReadThroughput(ctx(t), nil)
	check(t, err)
	units, isManual := read.ThroughputProperties.ManualThroughput()
	equal(t, isManual, true)
	equal(t, units, 500)
	_, err = database.ReplaceThroughput(ctx(t), azcosmos.NewManualThroughputProperties(700), nil)
	check(t, err)
	read, err = database.ReadThroughput(ctx(t), nil)
	check(t, err)
	units, _ = read.ThroughputProperties.ManualThroughput()
	equal(t, units, 700)
}
