// Queries as the SDK sends them: it leaves everything to the server, within one logical partition or
// over all of them. What the language means is tested elsewhere; here it travels.

package conformance

import (
	"encoding/base64"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/Azure/azure-sdk-for-go/sdk/data/azcosmos"
)

// numbered is a shelf with twelve items in two logical partitions.
func numbered(t *testing.T) shelf {
	t.Helper()
	shelf := newShelf(t)
	for n := range 12 {
		shelf.create(item{ID: fmt.Sprint(n), PK: []string{"even", "odd"}[n%2], N: n})
	}
	return shelf
}

func everywhere() azcosmos.PartitionKey { return azcosmos.NewPartitionKey() }

// rows gives all rows of a query, page by page.
func rows[T any](s shelf, key azcosmos.PartitionKey, query string, options *azcosmos.QueryOptions) []T {
	s.t.Helper()
	var found []T
	pager := s.NewQueryItemsPager(query, key, options)
	for pager.More() {
		page, err := pager.NextPage(ctx(s.t))
		check(s.t, err)
		found = append(found, decodeAll[T](s.t, page.Items)...)
	}
	return found
}

func with(parameters ...azcosmos.QueryParameter) *azcosmos.QueryOptions {
	return &azcosmos.QueryOptions{QueryParameters: parameters}
}

func TestAFilterWithParameters(t *testing.T) {
	shelf := numbered(t)
	query := "SELECT VALUE c.n FROM c WHERE c.n >= @low AND c.n < @high"
	options := with(
		azcosmos.QueryParameter{Name: "@low", Value: 3},
		azcosmos.QueryParameter{Name: "@high", Value: 6})
	found := rows[int](shelf, everywhere(), query, options)
	slices.Sort(found)
	equalAll(t, found, []int{3, 4, 5})
	equalAll(t, rows[int](shelf, pk("odd"), query+" ORDER BY c.n", options), []int{3, 5})
}

func TestOrderOffsetLimitAndAggregatesWithinAPartition(t *testing.T) {
	shelf := numbered(t)
	for query, expected := range map[string][]int{
		"SELECT VALUE c.n FROM c ORDER BY c.n DESC OFFSET 1 LIMIT 3":  {8, 6, 4},
		"SELECT TOP 2 VALUE c.n FROM c ORDER BY c.n":                  {0, 2},
		"SELECT VALUE COUNT(1) FROM c":                                {6},
		"SELECT VALUE SUM(c.n) FROM c":                                {30},
		"SELECT VALUE MAX(c.n) FROM c WHERE c.n < 9":                  {8},
		"SELECT DISTINCT VALUE c.n FROM c WHERE c.n < 4 ORDER BY c.n": {0, 2},
	} {
		equalAll(t, rows[int](shelf, pk("even"), query, nil), expected)
	}
}

func TestProjectionsAcrossPartitions(t *testing.T) {
	shelf := numbered(t)
	found := rows[map[string]string](shelf, everywhere(), "SELECT c.id, c.missing FROM c WHERE c.n = 7", nil)
	equal(t, len(found), 1)
	equal(t, fmt.Sprint(found[0]), "map[id:7]")
}

// The SDK's own suite asks for it with a container of one range.
func TestWhatAClientWouldHaveToMergeIsRefusedAsTheServiceDoes(t *testing.T) {
	for _, shelf := range []shelf{newShelf(t), newWideShelf(t, 2)} {
		for _, query := range []string{
			"SELECT * FROM c ORDER BY c.n",
			"SELECT VALUE COUNT(1) FROM c",
			"SELECT DISTINCT VALUE c.n FROM c",
			"SELECT TOP 1 * FROM c",
		} {
			pager := shelf.NewQueryItemsPager(query, everywhere(), nil)
			_, err := pager.NextPage(ctx(t))
			equal(t, substatus(fails(t, err, http.StatusBadRequest)), "1004")
		}
	}
}

func TestAFilterThatNamesOneKeyIsServedWhole(t *testing.T) {
	wide := newWideShelf(t, 3)
	for n := range 12 {
		wide.create(item{ID: fmt.Sprint(n), PK: []string{"even", "odd"}[n%2], N: n})
	}
	for _, shelf := range []shelf{numbered(t), wide} {
		query := "SELECT VALUE c.n FROM c WHERE c.pk = 'odd' ORDER BY c.n DESC OFFSET 1 LIMIT 3"
		equalAll(t, rows[int](shelf, everywhere(), query, nil), []int{9, 7, 5})
	}
}

func TestPagesGoOnFromAContinuationToken(t *testing.T) {
	wide := newWideShelf(t, 3)
	for n := range 12 {
		wide.create(item{ID: fmt.Sprint(n), PK: fmt.Sprint(n), N: n})
	}
	for _, shelf := range []shelf{numbered(t), wide} {
		var found []int
		options := &azcosmos.QueryOptions{PageSizeHint: 5}
		for {
			// A new pager for every page: nothing but the token is carried over.
			pager := shelf.NewQueryItemsPager("SELECT VALUE c.n FROM c", everywhere(), options)
			page, err := pager.NextPage(ctx(t))
			check(t, err)
			if len(page.Items) > 5 {
				t.Fatalf("a page of %d", len(page.Items))
			}
			found = append(found, decodeAll[int](t, page.Items)...)
			if page.ContinuationToken == nil || *page.ContinuationToken == "" {
				break
			}
			options.ContinuationToken = page.ContinuationToken
		}
		slices.Sort(found)
		equalAll(t, found, []int{0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11})
	}
}

func TestAPrefixOfAHierarchicalKeySelects(t *testing.T) {
	shelf := newShelf(t, func(c *azcosmos.ContainerProperties) {
		c.PartitionKeyDefinition = azcosmos.PartitionKeyDefinition{
			Kind: azcosmos.PartitionKeyKindMultiHash, Paths: []string{"/tenant", "/user"}, Version: 2,
		}
	})
	for n, key := range [][2]string{{"a", "u"}, {"b", "u"}, {"a", "v"}} {
		text := encode(t, map[string]any{"id": fmt.Sprint(n), "tenant": key[0], "user": key[1]})
		full := azcosmos.NewPartitionKey().AppendString(key[0]).AppendString(key[1])
		_, err := shelf.CreateItem(ctx(t), full, text, nil)
		check(t, err)
	}
	found := rows[string](shelf, everywhere(), "SELECT VALUE c.id FROM c WHERE c.tenant = 'a'", nil)
	slices.Sort(found)
	equalAll(t, found, []string{"0", "2"})
}

func TestMetricsOfAQueryAreToldWhenAsked(t *testing.T) {
	shelf := numbered(t)
	pager := shelf.NewQueryItemsPager("SELECT * FROM c WHERE c.n = 2", pk("even"),
		&azcosmos.QueryOptions{PopulateIndexMetrics: true})
	page, err := pager.NextPage(ctx(t))
	check(t, err)
	if page.IndexMetrics == nil || page.QueryMetrics == nil {
		t.Fatal("no metrics")
	}
	// The SDK hands the header on as it came.
	index, err := base64.StdEncoding.DecodeString(*page.IndexMetrics)
	check(t, err)
	if !strings.Contains(string(index), `"IndexSpec":"/n/?"`) {
		t.Fatalf("index metrics: %s", index)
	}
	if !strings.Contains(*page.QueryMetrics, "retrievedDocumentCount=1") {
		t.Fatalf("query metrics: %s", *page.QueryMetrics)
	}
}

func TestAQueryThatCannotBeParsedIsRefusedWithItsPlace(t *testing.T) {
	pager := newShelf(t).NewQueryItemsPager("SELECT * FROM", pk("a"), nil)
	_, err := pager.NextPage(ctx(t))
	refusal := fails(t, err, http.StatusBadRequest)
	if text := refusal.Error(); !strings.Contains(text, "SC1002") {
		t.Fatalf("no place in %s", text)
	}
}

func TestItemsOfManyPartitionsAreReadAtOnce(t *testing.T) {
	shelf := newWideShelf(t, 3)
	wanted := []azcosmos.ItemIdentity{{ID: "missing", PartitionKey: pk("nowhere")}}
	for n := range 40 {
		id := fmt.Sprint(n)
		shelf.create(item{ID: id, PK: "p" + id, N: n})
		if n%2 == 0 {
			wanted = append(wanted, azcosmos.ItemIdentity{ID: id, PartitionKey: pk("p" + id)})
		}
	}
	reply, err := shelf.ReadManyItems(ctx(t), wanted, nil)
	check(t, err)
	if reply.RequestCharge <= 0 {
		t.Fatal("reading costs nothing")
	}
	sum := 0
	for _, each := range decodeAll[item](t, reply.Items) {
		sum += each.N
	}
	equal(t, len(reply.Items), 20)
	equal(t, sum, 380)
}
