// Patch: the operations that the SDK knows, conditions, and what must not be patched.

package conformance

import (
	"net/http"
	"reflect"
	"testing"

	"github.com/Azure/azure-sdk-for-go/sdk/data/azcosmos"
)

const patched = `{"id":"1","pk":"a","n":1,"text":"t","list":[1,2,3]}`

// patch stores a fresh item and patches it; gives the item's own properties and the error.
func patch(t *testing.T, build func(*azcosmos.PatchOperations)) (map[string]any, error) {
	t.Helper()
	shelf := newShelf(t)
	_, err := shelf.CreateItem(ctx(t), pk("a"), []byte(patched), nil)
	check(t, err)
	var operations azcosmos.PatchOperations
	build(&operations)
	_, failure := shelf.PatchItem(ctx(t), pk("a"), "1", operations, nil)
	read, err := shelf.ReadItem(ctx(t), pk("a"), "1", nil)
	check(t, err)
	own := decode[map[string]any](t, read.Value)
	for name := range own {
		if name[0] == '_' {
			delete(own, name)
		}
	}
	return own, failure
}

func TestOperationsApplyInOrder(t *testing.T) {
	found, err := patch(t, func(p *azcosmos.PatchOperations) {
		p.AppendAdd("/list/1", 9)
		p.AppendSet("/new", map[string]any{"deep": []int{}})
		p.AppendReplace("/text", "u")
		p.AppendIncrement("/n", 41)
		p.AppendRemove("/list/0")
	})
	check(t, err)
	expected := decode[map[string]any](t,
		[]byte(`{"id":"1","pk":"a","n":42,"text":"u","list":[9,2,3],"new":{"deep":[]}}`))
	if !reflect.DeepEqual(found, expected) {
		t.Fatalf("found %v, expected %v", found, expected)
	}
}

func TestAConditionDecidesWhetherThePatchApplies(t *testing.T) {
	set := func(condition string) func(*azcosmos.PatchOperations) {
		return func(p *azcosmos.PatchOperations) {
			p.SetCondition(condition)
			p.AppendSet("/n", 2)
		}
	}
	found, err := patch(t, set("from c where c.n = 1"))
	check(t, err)
	equal(t, found["n"], any(2.0))
	found, err = patch(t, set("from c where c.n = 7"))
	fails(t, err, http.StatusPreconditionFailed)
	equal(t, found["n"], any(1.0))
}

func TestAPatchThatCannotBeDoneChangesNothing(t *testing.T) {
	for _, build := range []func(*azcosmos.PatchOperations){
		func(p *azcosmos.PatchOperations) { p.AppendSet("/n", 2); p.AppendRemove("/missing") },
		func(p *azcosmos.PatchOperations) { p.AppendReplace("/missing", 1) },
		func(p *azcosmos.PatchOperations) { p.AppendIncrement("/text", 1) },
		func(p *azcosmos.PatchOperations) { p.AppendSet("/id", "2") },
		func(p *azcosmos.PatchOperations) { p.AppendSet("/pk", "b") },
		func(p *azcosmos.PatchOperations) {},
	} {
		found, err := patch(t, build)
		fails(t, err, http.StatusBadRequest)
		if !reflect.DeepEqual(found, decode[map[string]any](t, []byte(patched))) {
			t.Fatalf("a refused patch left %v", found)
		}
	}
}

func TestWhatIsNotThereCannotBePatched(t *testing.T) {
	var operations azcosmos.PatchOperations
	operations.AppendSet("/n", 1)
	_, err := newShelf(t).PatchItem(ctx(t), pk("a"), "missing", operations, nil)
	fails(t, err, http.StatusNotFound)
}
