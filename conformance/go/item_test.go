// Items: their life, the keys they live under, etags, and what must be refused.

package conformance

import (
	"net/http"
	"strings"
	"testing"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore"
	"github.com/Azure/azure-sdk-for-go/sdk/data/azcosmos"
)

func TestAnItemIsCreatedReadReplacedUpsertedAndDeleted(t *testing.T) {
	shelf := newShelf(t)
	created := shelf.create(item{ID: "1", PK: "a", N: 1})
	equal(t, created.RawResponse.StatusCode, http.StatusCreated)
	if created.RequestCharge <= 0 || created.ActivityID == "" {
		t.Fatalf("no charge or no activity id: %+v", created.Response)
	}
	equal(t, shelf.read("1", "a").N, 1)

	replaced, err := shelf.ReplaceItem(ctx(t), pk("a"), "1", encode(t, item{ID: "1", PK: "a", N: 2}), nil)
	check(t, err)
	equal(t, decode[item](t, replaced.Value).N, 2)
	if replaced.ETag == created.ETag {
		t.Fatal("a write makes a new etag")
	}
	equal(t, shelf.upsert(item{ID: "1", PK: "a", N: 3}).RawResponse.StatusCode, http.StatusOK)
	equal(t, shelf.upsert(item{ID: "2", PK: "a", N: 4}).RawResponse.StatusCode, http.StatusCreated)
	equal(t, shelf.read("1", "a").N, 3)

	shelf.delete("1", "a")
	_, err = shelf.ReadItem(ctx(t), pk("a"), "1", nil)
	fails(t, err, http.StatusNotFound)
}

func TestWhatIsThereAlreadyAndWhatIsMissing(t *testing.T) {
	shelf := newShelf(t)
	shelf.create(item{ID: "1", PK: "a", N: 1})
	_, err := shelf.CreateItem(ctx(t), pk("a"), encode(t, item{ID: "1", PK: "a", N: 2}), nil)
	fails(t, err, http.StatusConflict)
	equal(t, shelf.read("1", "a").N, 1)
	_, err = shelf.ReplaceItem(ctx(t), pk("a"), "2", encode(t, item{ID: "2", PK: "a"}), nil)
	fails(t, err, http.StatusNotFound)
	_, err = shelf.DeleteItem(ctx(t), pk("a"), "2", nil)
	fails(t, err, http.StatusNotFound)
}

func TestTheSameIdInTwoPartitionsIsTwoItems(t *testing.T) {
	shelf := newShelf(t)
	shelf.create(item{ID: "1", PK: "a", N: 1})
	shelf.create(item{ID: "1", PK: "b", N: 2})
	equal(t, shelf.read("1", "a").N, 1)
	equal(t, shelf.read("1", "b").N, 2)
}

func TestPartitionKeysOfEveryType(t *testing.T) {
	shelf := newShelf(t)
	for name, key := range map[string]struct {
		value any
		key   azcosmos.PartitionKey
	}{
		"string": {"é/?#ß", azcosmos.NewPartitionKeyString("é/?#ß")},
		"number": {-1.5, azcosmos.NewPartitionKeyNumber(-1.5)},
		"true":   {true, azcosmos.NewPartitionKeyBool(true)},
		"null":   {nil, azcosmos.NullPartitionKey},
	} {
		text := encode(t, map[string]any{"id": name, "pk": key.value})
		_, err := shelf.CreateItem(ctx(t), key.key, text, nil)
		check(t, err)
		_, err = shelf.ReadItem(ctx(t), key.key, name, nil)
		check(t, err)
	}
}

func TestAKeyThatIsNotTheItemsIsRefused(t *testing.T) {
	shelf := newShelf(t)
	_, err := shelf.CreateItem(ctx(t), pk("b"), encode(t, item{ID: "1", PK: "a"}), nil)
	equal(t, substatus(fails(t, err, http.StatusBadRequest)), "1001")
}

func TestAHierarchicalKeyLeadsToItsItem(t *testing.T) {
	shelf := newShelf(t, func(c *azcosmos.ContainerProperties) {
		c.PartitionKeyDefinition = azcosmos.PartitionKeyDefinition{
			Kind: azcosmos.PartitionKeyKindMultiHash, Paths: []string{"/tenant", "/user"}, Version: 2,
		}
	})
	key := azcosmos.NewPartitionKey().AppendString("contoso").AppendNumber(7)
	text := encode(t, map[string]any{"id": "1", "tenant": "contoso", "user": 7})
	_, err := shelf.CreateItem(ctx(t), key, text, nil)
	check(t, err)
	_, err = shelf.ReadItem(ctx(t), key, "1", nil)
	check(t, err)
	other := azcosmos.NewPartitionKey().AppendString("contoso").AppendNumber(8)
	_, err = shelf.ReadItem(ctx(t), other, "1", nil)
	fails(t, err, http.StatusNotFound)
}

func TestAnEtagGuardsAgainstLostUpdates(t *testing.T) {
	shelf := newShelf(t)
	first := shelf.create(item{ID: "1", PK: "a", N: 1}).ETag
	options := &azcosmos.ItemOptions{IfMatchEtag: &first}
	text := encode(t, item{ID: "1", PK: "a", N: 2})
	_, err := shelf.ReplaceItem(ctx(t), pk("a"), "1", text, options)
	check(t, err)
	for _, write := range []func() error{
		func() error { _, err := shelf.ReplaceItem(ctx(t), pk("a"), "1", text, options); return err },
		func() error { _, err := shelf.UpsertItem(ctx(t), pk("a"), text, options); return err },
		func() error { _, err := shelf.DeleteItem(ctx(t), pk("a"), "1", options); return err },
	} {
		fails(t, write(), http.StatusPreconditionFailed)
	}
	equal(t, shelf.read("1", "a").N, 2)
	any := azcore.ETagAny
	_, err = shelf.DeleteItem(ctx(t), pk("a"), "1", &azcosmos.ItemOptions{IfMatchEtag: &any})
	check(t, err)
}

func TestAWriteAnswersWithoutTheItemWhenAsked(t *testing.T) {
	shelf := newShelf(t)
	credential, err := azcosmos.NewKeyCredential(key)
	check(t, err)
	quiet, err := azcosmos.NewClientWithKey(endpoint, credential, &azcosmos.ClientOptions{
		ClientOptions: azcore.ClientOptions{Transport: transport},
	})
	check(t, err)
	t.Cleanup(quiet.Close)
	read, err := shelf.Read(ctx(t), nil)
	check(t, err)
	database := strings.Split(read.RawResponse.Request.URL.Path, "/")[2]
	container, err := quiet.NewContainer(database, shelf.ID())
	check(t, err)
	reply, err := container.CreateItem(ctx(t), pk("a"), encode(t, item{ID: "1", PK: "a", N: 1}), nil)
	check(t, err)
	equal(t, len(reply.Value), 0)
	equal(t, shelf.read("1", "a").N, 1)
}

func TestABadItemIsRefused(t *testing.T) {
	shelf := newShelf(t)
	for _, text := range []string{
		`{"pk":"a"}`,
		`{"id":7,"pk":"a"}`,
		`{"id":"","pk":"a"}`,
		`{"id":"1","pk":"a",}`,
		`["id"]`,
	} {
		_, err := shelf.CreateItem(ctx(t), pk("a"), []byte(text), nil)
		fails(t, err, http.StatusBadRequest)
	}
	large := map[string]any{"id": "1", "pk": "a", "filler": strings.Repeat("x", 2*1024*1024)}
	_, err := shelf.CreateItem(ctx(t), pk("a"), encode(t, large), nil)
	fails(t, err, http.StatusRequestEntityTooLarge)
}
