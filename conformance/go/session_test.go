// Session tokens: who carries one reads at least what its writer wrote.

package conformance

import (
	"net/http"
	"regexp"
	"strconv"
	"testing"

	"github.com/Azure/azure-sdk-for-go/sdk/data/azcosmos"
)

var token = regexp.MustCompile(`^\d+:-?\d+#(\d+)(#\d+=-?\d+)*$`)

func lsn(t *testing.T, text *string) int {
	t.Helper()
	if text == nil {
		t.Fatal("no session token")
	}
	parts := token.FindStringSubmatch(*text)
	if parts == nil {
		t.Fatalf("not a session token: %q", *text)
	}
	number, err := strconv.Atoi(parts[1])
	check(t, err)
	return number
}

func TestEveryWriteAnswersWithATokenThatRises(t *testing.T) {
	shelf := newShelf(t)
	last := 0
	for n := range 5 {
		next := lsn(t, shelf.upsert(item{ID: "1", PK: "a", N: n}).SessionToken)
		if next <= last {
			t.Fatalf("%d after %d", next, last)
		}
		last = next
	}
}

func TestAnotherClientWithTheTokenSeesTheWrite(t *testing.T) {
	database := scratch(t)
	shelf := addShelf(t, database, nil)
	written := shelf.create(item{ID: "1", PK: "a", N: 1}).SessionToken
	reader, err := connect(t).NewContainer(database.ID(), shelf.ID())
	check(t, err)
	for _, level := range azcosmos.ConsistencyLevelValues() {
		if level == azcosmos.ConsistencyLevelStrong || level == azcosmos.ConsistencyLevelBoundedStaleness {
			continue
		}
		reply, err := reader.ReadItem(ctx(t), pk("a"), "1",
			&azcosmos.ItemOptions{SessionToken: written, ConsistencyLevel: &level})
		check(t, err)
		equal(t, decode[item](t, reply.Value).N, 1)
	}
}

func TestATokenOfTheFutureIsNotAvailableYet(t *testing.T) {
	shelf := newShelf(t)
	written := shelf.create(item{ID: "1", PK: "a", N: 1}).SessionToken
	future := regexp.MustCompile(`#\d+`).ReplaceAllString(*written, "#999999999")
	_, err := shelf.ReadItem(ctx(t), pk("a"), "1", &azcosmos.ItemOptions{SessionToken: &future})
	equal(t, substatus(fails(t, err, http.StatusNotFound)), "1002")
}

func TestAStrongerLevelThanTheAccountsIsRefused(t *testing.T) {
	shelf := newShelf(t)
	shelf.create(item{ID: "1", PK: "a", N: 1})
	strong := azcosmos.ConsistencyLevelStrong
	_, err := shelf.ReadItem(ctx(t), pk("a"), "1", &azcosmos.ItemOptions{ConsistencyLevel: &strong})
	fails(t, err, http.StatusBadRequest)
}
