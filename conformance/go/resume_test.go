// Ordered queries that begin again with every page, as those of a web page do: nothing but the token of the
// page before is carried over. The SDK merges nothing, so an ordered query is of one logical partition; the
// server keeps the order, and the token must hold wherever that partition lies.

package conformance

import (
	"cmp"
	"fmt"
	"slices"
	"testing"

	"github.com/Azure/azure-sdk-for-go/sdk/data/azcosmos"
)

const resumedCount = 30

// values has one of every type in ascending order; the first stands for a missing property. Two arrays or
// objects would be ordered by a hash.
var values = []any{
	missing{}, nil, false, true, -1.5, 7, 9007199254740991, "", "a", `it's "so"`, "é",
	[]int{1}, map[string]int{"a": 1},
}

type missing struct{}

func rankOfV(n int) int { return n * 5 % len(values) }
func few(n int) int     { return n % 4 }
func rankOfS(n int) int { return n % 5 }

// ordered is a query of the numbers of items, with the keys of its order: what is compared of two items,
// one after the other.
type ordered struct {
	text       string
	keys       []func(n int) int
	skip, take int
}

func ascending(key func(int) int) func(int) int  { return key }
func descending(key func(int) int) func(int) int { return func(n int) int { return -key(n) } }
func itself(n int) int                           { return n }
func equally(int) int                            { return 0 }

var orderedQueries = []ordered{
	{text: "SELECT VALUE c.n FROM c ORDER BY c.n", keys: []func(int) int{ascending(itself)}},
	{text: "SELECT VALUE c.n FROM c ORDER BY c.n DESC", keys: []func(int) int{descending(itself)}},
	{text: "SELECT VALUE c.n FROM c ORDER BY c.v", keys: []func(int) int{ascending(rankOfV)}},
	{text: "SELECT VALUE c.n FROM c ORDER BY c.v DESC", keys: []func(int) int{descending(rankOfV)}},
	{text: "SELECT VALUE c.n FROM c ORDER BY c.same", keys: []func(int) int{equally}},
	{text: "SELECT VALUE c.n FROM c ORDER BY c.same DESC", keys: []func(int) int{equally}},
	{text: "SELECT VALUE c.n FROM c ORDER BY c.few, c.s DESC", keys: []func(int) int{ascending(few), descending(rankOfS)}},
	{text: "SELECT VALUE c.n FROM c ORDER BY c.few DESC, c.s", keys: []func(int) int{descending(few), ascending(rankOfS)}},
	{text: "SELECT TOP 17 VALUE c.n FROM c ORDER BY c.n DESC", keys: []func(int) int{descending(itself)}, take: 17},
	{text: "SELECT VALUE c.n FROM c ORDER BY c.n OFFSET 5 LIMIT 20", keys: []func(int) int{ascending(itself)}, skip: 5, take: 20},
	{text: "SELECT VALUE c.n FROM c ORDER BY c.v DESC OFFSET 3 LIMIT 9", keys: []func(int) int{descending(rankOfV)}, skip: 3, take: 9},
	{text: "SELECT DISTINCT VALUE c.few FROM c ORDER BY c.few", keys: []func(int) int{ascending(itself)}, take: 4},
}

func (o ordered) compare(a, b int) int {
	for _, key := range o.keys {
		if order := cmp.Compare(key(a), key(b)); order != 0 {
			return order
		}
	}
	return 0
}

// expected has the numbers of all rows in their order, as far as there is one.
func (o ordered) expected() []int {
	all := make([]int, resumedCount)
	for n := range all {
		all[n] = n
	}
	slices.SortStableFunc(all, o.compare)
	if o.take == 0 {
		return all
	}
	return all[o.skip : o.skip+o.take]
}

// check compares rows by their keys, because rows with equal keys have no order; and no row comes twice.
func (o ordered) check(t *testing.T, found []int, context string) {
	t.Helper()
	expected := o.expected()
	same := func(a, b int) bool { return o.compare(a, b) == 0 }
	if !slices.EqualFunc(found, expected, same) {
		t.Fatalf("%s, %s: found %v, expected %v", o.text, context, found, expected)
	}
	sorted := slices.Sorted(slices.Values(found))
	if len(slices.Compact(sorted)) != len(found) {
		t.Fatalf("%s, %s: a row came twice: %v", o.text, context, found)
	}
}

// withOrders has the composite indexes that the queries need.
func withOrders(properties *azcosmos.ContainerProperties) {
	properties.IndexingPolicy = &azcosmos.IndexingPolicy{
		Automatic:     true,
		IndexingMode:  azcosmos.IndexingModeConsistent,
		IncludedPaths: []azcosmos.IncludedPath{{Path: "/*"}},
		CompositeIndexes: [][]azcosmos.CompositeIndex{{
			{Path: "/few", Order: azcosmos.CompositeIndexAscending},
			{Path: "/s", Order: azcosmos.CompositeIndexDescending},
		}},
	}
}

// resumable is a shelf whose items lie in one logical partition, among others.
func resumable(t *testing.T, ranges int32) shelf {
	t.Helper()
	var options *azcosmos.CreateContainerOptions
	if ranges > 1 {
		throughput := azcosmos.NewManualThroughputProperties(ranges * 6_000)
		options = &azcosmos.CreateContainerOptions{ThroughputProperties: &throughput}
	}
	shelf := addShelf(t, scratch(t), options, withOrders)
	for n := range resumedCount {
		it := map[string]any{"id": fmt.Sprint(n), "pk": "one", "n": n, "few": few(n), "same": 1}
		it["s"] = fmt.Sprintf("s%d", rankOfS(n))
		if value := values[rankOfV(n)]; value != any(missing{}) {
			it["v"] = value
		}
		_, err := shelf.CreateItem(ctx(t), pk("one"), encode(t, it), nil)
		check(t, err)
		shelf.create(item{ID: fmt.Sprint(n), PK: fmt.Sprintf("other-%d", n), N: n})
	}
	return shelf
}

// resumed gives all rows of a query that begins again with each page; between is called after each.
func (s shelf) resumed(query string, size int32, between func(pages int)) []int {
	s.t.Helper()
	var found []int
	options := &azcosmos.QueryOptions{PageSizeHint: size}
	for pages := 1; pages <= 200; pages++ {
		page, err := s.NewQueryItemsPager(query, pk("one"), options).NextPage(ctx(s.t))
		check(s.t, err)
		if len(page.Items) > int(size) {
			s.t.Fatalf("a page of %d", len(page.Items))
		}
		found = append(found, decodeAll[int](s.t, page.Items)...)
		if page.ContinuationToken == nil || *page.ContinuationToken == "" {
			return found
		}
		options.ContinuationToken = page.ContinuationToken
		between(pages)
	}
	s.t.Fatalf("%s has no end", query)
	return nil
}

func TestEveryOrderedQueryGoesOnFromEveryPage(t *testing.T) {
	for _, ranges := range []int32{1, 3} {
		shelf := resumable(t, ranges)
		for _, query := range orderedQueries {
			for _, size := range []int32{1, 2, 3, 7} {
				found := shelf.resumed(query.text, size, func(int) {})
				query.check(t, found, fmt.Sprintf("over %d in pages of %d", ranges, size))
			}
		}
	}
}

func TestAnOrderedQueryGoesOnAcrossSplits(t *testing.T) {
	for _, ranges := range []int32{1, 3} {
		for _, query := range orderedQueries {
			shelf := resumable(t, ranges)
			found := shelf.resumed(query.text, 2, func(pages int) {
				if pages == 1 || pages == 3 {
					shelf.split()
				}
			})
			query.check(t, found, fmt.Sprintf("over %d and more", ranges))
		}
	}
}
