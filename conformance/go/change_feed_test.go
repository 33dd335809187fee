// The change feed, which the SDK pulls by feed range.

package conformance

import (
	"fmt"
	"net/http"
	"slices"
	"testing"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/data/azcosmos"
)

// pull reads until there is nothing new; gives the changes as id:n, and where it is.
func (s shelf) pull(options azcosmos.ChangeFeedOptions) (found []string, token string) {
	s.t.Helper()
	for {
		page, err := s.ReadChangeFeed(ctx(s.t), &options)
		check(s.t, err)
		if options.MaxItemCount > 0 && len(page.Items) > int(options.MaxItemCount) {
			s.t.Fatalf("a page of %d", len(page.Items))
		}
		for _, each := range decodeAll[item](s.t, page.Items) {
			found = append(found, fmt.Sprintf("%s:%d", each.ID, each.N))
		}
		token = page.ContinuationToken
		if len(page.Items) == 0 {
			return found, token
		}
		options.Continuation = &token
	}
}

func (s shelf) feedRanges() []azcosmos.FeedRange {
	s.t.Helper()
	ranges, err := s.ReadFeedRanges(ctx(s.t), nil)
	check(s.t, err)
	return ranges
}

// The one range that has items: a container may have any number of ranges.
func (s shelf) filledRange() azcosmos.FeedRange {
	s.t.Helper()
	for _, each := range s.feedRanges() {
		if found, _ := s.pull(azcosmos.ChangeFeedOptions{FeedRange: &each}); len(found) > 0 {
			return each
		}
	}
	s.t.Fatal("no range has an item")
	return azcosmos.FeedRange{}
}

func TestTheFeedGivesTheNewestStateThenOnlyWhatIsNew(t *testing.T) {
	shelf := newShelf(t)
	shelf.create(item{ID: "1", PK: "a", N: 1})
	shelf.create(item{ID: "2", PK: "a", N: 1})
	shelf.upsert(item{ID: "1", PK: "a", N: 2})
	filled := shelf.filledRange()
	found, token := shelf.pull(azcosmos.ChangeFeedOptions{FeedRange: &filled})
	equalAll(t, found, []string{"2:1", "1:2"})
	shelf.create(item{ID: "3", PK: "a", N: 1})
	found, token = shelf.pull(azcosmos.ChangeFeedOptions{Continuation: &token})
	equalAll(t, found, []string{"3:1"})
	found, _ = shelf.pull(azcosmos.ChangeFeedOptions{Continuation: &token})
	equal(t, len(found), 0)
}

func TestTheFeedStartsAtATime(t *testing.T) {
	shelf := newShelf(t)
	shelf.create(item{ID: "1", PK: "a", N: 1})
	filled := shelf.filledRange()
	from := func(start time.Time) []string {
		found, _ := shelf.pull(azcosmos.ChangeFeedOptions{FeedRange: &filled, StartFrom: &start})
		return found
	}
	equalAll(t, from(time.Now().Add(-time.Hour)), []string{"1:1"})
	equal(t, len(from(time.Now().Add(time.Hour))), 0)
}

func TestEveryRangeHasAFeedOfItsOwnAndPagesOfAnySize(t *testing.T) {
	const count = 60
	shelf := newWideShelf(t, 3)
	for n := range count {
		shelf.create(item{ID: fmt.Sprint(n), PK: fmt.Sprint("p", n%7), N: n})
	}
	ranges := shelf.feedRanges()
	equal(t, len(ranges), 3)
	for _, size := range []int32{1, 7, 100} {
		var all []string
		for _, each := range ranges {
			found, _ := shelf.pull(azcosmos.ChangeFeedOptions{FeedRange: &each, MaxItemCount: size})
			all = append(all, found...)
		}
		slices.Sort(all)
		equal(t, len(slices.Compact(all)), count)
	}
	// One range over all of them, drained partition by partition.
	whole := azcosmos.FeedRange{MinInclusive: "", MaxExclusive: "FF"}
	found, token := shelf.pull(azcosmos.ChangeFeedOptions{FeedRange: &whole, MaxItemCount: 9})
	slices.Sort(found)
	equal(t, len(slices.Compact(found)), count)
	shelf.create(item{ID: "new", PK: "p3", N: 0})
	found, _ = shelf.pull(azcosmos.ChangeFeedOptions{Continuation: &token})
	equalAll(t, found, []string{"new:0"})
}

func TestAPositionOfAnotherContainerIsRefused(t *testing.T) {
	one, other := newShelf(t), newShelf(t)
	whole := one.feedRanges()[0]
	_, token := one.pull(azcosmos.ChangeFeedOptions{FeedRange: &whole})
	if _, err := other.ReadChangeFeed(ctx(t), &azcosmos.ChangeFeedOptions{Continuation: &token}); err == nil {
		t.Fatal("a token of another container was taken")
	}
}

func TestTheFeedOfAContainerThatIsGoneIsNotFound(t *testing.T) {
	shelf := newShelf(t)
	whole := shelf.feedRanges()[0]
	_, err := shelf.Delete(ctx(t), nil)
	check(t, err)
	_, err = shelf.ReadChangeFeed(ctx(t), &azcosmos.ChangeFeedOptions{FeedRange: &whole})
	fails(t, err, http.StatusNotFound)
}
