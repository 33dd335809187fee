// Triggers: the SDK names them in a write, though it cannot create them.

package conformance

import (
	"net/http"
	"testing"

	"github.com/Azure/azure-sdk-for-go/sdk/data/azcosmos"
)

func TestATriggerRunsInTheWriteThatNamesIt(t *testing.T) {
	database := scratch(t)
	shelf := addShelf(t, database, nil)
	feed := "dbs/" + database.ID() + "/colls/" + shelf.ID() + "/triggers"
	post(t, feed, map[string]any{
		"id": "double", "triggerType": "Pre", "triggerOperation": "Create",
		"body": `function double() {
			const request = getContext().getRequest();
			const item = request.getBody();
			item.n *= 2;
			request.setBody(item);
		}`,
	})
	post(t, feed, map[string]any{
		"id": "refuse", "triggerType": "Post", "triggerOperation": "All",
		"body": `function refuse() { throw new Error("not today"); }`,
	})

	_, err := shelf.CreateItem(ctx(t), pk("a"), encode(t, item{ID: "1", PK: "a", N: 21}),
		&azcosmos.ItemOptions{PreTriggers: []string{"double"}})
	check(t, err)
	equal(t, shelf.read("1", "a").N, 42)

	_, err = shelf.CreateItem(ctx(t), pk("a"), encode(t, item{ID: "2", PK: "a", N: 1}),
		&azcosmos.ItemOptions{PostTriggers: []string{"refuse"}})
	fails(t, err, http.StatusBadRequest)
	_, err = shelf.ReadItem(ctx(t), pk("a"), "2", nil)
	fails(t, err, http.StatusNotFound)
}
