// Transactional batches: all or nothing.

package conformance

import (
	"net/http"
	"testing"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore"
	"github.com/Azure/azure-sdk-for-go/sdk/data/azcosmos"
)

func (s shelf) run(batch azcosmos.TransactionalBatch) azcosmos.TransactionalBatchResponse {
	s.t.Helper()
	reply, err := s.ExecuteTransactionalBatch(ctx(s.t), batch,
		&azcosmos.TransactionalBatchOptions{EnableContentResponseOnWrite: true})
	check(s.t, err)
	return reply
}

func statuses(reply azcosmos.TransactionalBatchResponse) (codes []int) {
	for _, each := range reply.OperationResults {
		codes = append(codes, int(each.StatusCode))
	}
	return codes
}

func TestABatchOfEveryKindOfOperation(t *testing.T) {
	shelf := newShelf(t)
	for _, id := range []string{"replaced", "patched", "deleted", "read"} {
		shelf.create(item{ID: id, PK: "a", N: 1})
	}
	batch := shelf.NewTransactionalBatch(pk("a"))
	batch.CreateItem(encode(t, item{ID: "created", PK: "a", N: 2}), nil)
	batch.UpsertItem(encode(t, item{ID: "upserted", PK: "a", N: 3}), nil)
	batch.ReplaceItem("replaced", encode(t, item{ID: "replaced", PK: "a", N: 4}), nil)
	var operations azcosmos.PatchOperations
	operations.AppendIncrement("/n", 4)
	batch.PatchItem("patched", operations, nil)
	batch.DeleteItem("deleted", nil)
	batch.ReadItem("read", nil)
	// A batch sees what it has written itself.
	batch.ReadItem("created", nil)

	reply := shelf.run(batch)
	equal(t, reply.Success, true)
	equalAll(t, statuses(reply), []int{201, 201, 200, 200, 204, 200, 200})
	equal(t, decode[item](t, reply.OperationResults[3].ResourceBody).N, 5)
	equal(t, decode[item](t, reply.OperationResults[6].ResourceBody).N, 2)
	if reply.SessionToken == "" || reply.OperationResults[0].ETag == "" {
		t.Fatalf("no session token or no etag: %+v", reply)
	}
	equal(t, shelf.read("upserted", "a").N, 3)
	equal(t, shelf.read("replaced", "a").N, 4)
	equal(t, shelf.read("patched", "a").N, 5)
	_, err := shelf.ReadItem(ctx(t), pk("a"), "deleted", nil)
	fails(t, err, http.StatusNotFound)
}

func TestABatchThatFailsLeavesNothing(t *testing.T) {
	shelf := newShelf(t)
	shelf.create(item{ID: "there", PK: "a", N: 1})
	batch := shelf.NewTransactionalBatch(pk("a"))
	batch.CreateItem(encode(t, item{ID: "new", PK: "a"}), nil)
	batch.CreateItem(encode(t, item{ID: "there", PK: "a"}), nil)
	batch.DeleteItem("there", nil)
	reply := shelf.run(batch)
	equal(t, reply.Success, false)
	equalAll(t, statuses(reply), []int{424, 409, 424})
	_, err := shelf.ReadItem(ctx(t), pk("a"), "new", nil)
	fails(t, err, http.StatusNotFound)
	equal(t, shelf.read("there", "a").N, 1)
}

func TestABatchChecksEtags(t *testing.T) {
	shelf := newShelf(t)
	stale := shelf.create(item{ID: "1", PK: "a", N: 1}).ETag
	fresh := shelf.upsert(item{ID: "1", PK: "a", N: 2}).ETag
	replace := func(etag azcore.ETag) azcosmos.TransactionalBatchResponse {
		batch := shelf.NewTransactionalBatch(pk("a"))
		batch.ReplaceItem("1", encode(t, item{ID: "1", PK: "a", N: 3}),
			&azcosmos.TransactionalBatchItemOptions{IfMatchETag: &etag})
		return shelf.run(batch)
	}
	equalAll(t, statuses(replace(stale)), []int{412})
	equal(t, shelf.read("1", "a").N, 2)
	equalAll(t, statuses(replace(fresh)), []int{200})
	equal(t, shelf.read("1", "a").N, 3)
}
