// First steps: connect, make a container, store and read items, query, write a batch, follow changes.
//
//	cd examples/go && go run .
package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log"
	"net/http"
	"os"
	"slices"
	"strings"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore"
	"github.com/Azure/azure-sdk-for-go/sdk/data/azcosmos"
)

// The key that every emulator is known by; a server that listens on this machine only takes it.
const emulatorKey = "C2y6yDjf5/R+ob0N8A7Cgv30VRDJIWEHLM+4QDU5DE2nQ9nDuVTqobD4b8mGGyPMbIZnqyMsEcaGQy67XIw/Jw=="

// body is a planet or a moon.
type body struct {
	ID     string  `json:"id"`
	Star   string  `json:"star"`
	Kind   string  `json:"kind"`
	Name   string  `json:"name"`
	AU     float64 `json:"au,omitempty"`
	Moons  int     `json:"moons"`
	Planet string  `json:"planet,omitempty"`
}

func planet(name string, au float64, moons int) body {
	return body{ID: strings.ToLower(name), Star: "Sun", Kind: "planet", Name: name, AU: au, Moons: moons}
}

func moon(name, planet string) body {
	return body{ID: strings.ToLower(name), Star: "Sun", Kind: "moon", Name: name, Planet: planet}
}

// What was known before 1610, with the distance from the Sun in astronomical units.
var planets = []body{
	planet("Mercury", 0.39, 0), planet("Venus", 0.72, 0), planet("Earth", 1, 1),
	planet("Mars", 1.52, 0), planet("Jupiter", 5.2, 0), planet("Saturn", 9.58, 0),
}

var sun = azcosmos.NewPartitionKeyString("Sun")

func main() {
	if err := run(context.Background()); err != nil {
		log.Fatal(err)
	}
}

func run(ctx context.Context) error {
	bodies, err := newContainer(ctx)
	if err != nil {
		return err
	}

	// Items are JSON; `id` is the only property they must have.
	var names []string
	for _, each := range planets {
		if _, err := bodies.CreateItem(ctx, sun, encode(each), nil); err != nil {
			return err
		}
		names = append(names, each.Name)
	}
	fmt.Println("stored:", strings.Join(names, ", "))

	// The fastest way to an item is its id together with its partition key.
	reply, err := bodies.ReadItem(ctx, sun, "earth", nil)
	if err != nil {
		return err
	}
	earth := decode(reply.Value)
	fmt.Printf("read: %s has %d moon\n", earth.Name, earth.Moons)

	// A query, with a parameter instead of pasted text.
	var beyond []string
	pager := bodies.NewQueryItemsPager(
		"SELECT b.name, b.au FROM b WHERE b.kind = 'planet' AND b.au > @au ORDER BY b.au", sun,
		&azcosmos.QueryOptions{QueryParameters: []azcosmos.QueryParameter{{Name: "@au", Value: earth.AU}}})
	for pager.More() {
		page, err := pager.NextPage(ctx)
		if err != nil {
			return err
		}
		for _, row := range page.Items {
			beyond = append(beyond, fmt.Sprintf("%s %.2f", decode(row).Name, decode(row).AU))
		}
	}
	fmt.Println("beyond Earth:", strings.Join(beyond, ", "))

	// The change feed tells every change since the beginning, and where to go on.
	whole := azcosmos.FeedRange{MinInclusive: "", MaxExclusive: "FF"}
	first, position, err := changes(ctx, bodies, azcosmos.ChangeFeedOptions{FeedRange: &whole})
	if err != nil {
		return err
	}
	fmt.Printf("change feed: %d changes\n", len(first))

	// Galileo looks at Jupiter: four moons and their count are written together, or not at all.
	batch := bodies.NewTransactionalBatch(sun)
	for _, name := range []string{"Io", "Europa", "Ganymede", "Callisto"} {
		batch.CreateItem(encode(moon(name, "jupiter")), nil)
	}
	batch.ReplaceItem("jupiter", encode(planet("Jupiter", 5.2, 4)), nil)
	if _, err = bodies.ExecuteTransactionalBatch(ctx, batch, nil); err != nil {
		return err
	}
	if reply, err = bodies.ReadItem(ctx, sun, "jupiter", nil); err != nil {
		return err
	}
	fmt.Printf("batch: Jupiter has %d moons\n", decode(reply.Value).Moons)

	// Io is there already: the whole batch is refused, and nothing of it remains.
	batch = bodies.NewTransactionalBatch(sun)
	batch.CreateItem(encode(planet("Vulcan", 0.14, 0)), nil)
	batch.CreateItem(encode(moon("Io", "jupiter")), nil)
	refused, err := bodies.ExecuteTransactionalBatch(ctx, batch, nil)
	if err != nil {
		return err
	}
	for _, result := range refused.OperationResults {
		if result.StatusCode != http.StatusFailedDependency {
			_, err := bodies.ReadItem(ctx, sun, "vulcan", nil)
			fmt.Printf("batch refused with %d: there is %s Vulcan\n",
				result.StatusCode, map[bool]string{true: "no", false: "a"}[isMissing(err)])
		}
	}

	// What has changed since.
	since, _, err := changes(ctx, bodies, azcosmos.ChangeFeedOptions{Continuation: &position})
	if err != nil {
		return err
	}
	slices.Sort(since)
	fmt.Println("change feed:", strings.Join(since, ", "))
	return nil
}

// newContainer connects, removes what an earlier run has left, and makes a container.
func newContainer(ctx context.Context) (*azcosmos.ContainerClient, error) {
	credential, err := azcosmos.NewKeyCredential(setting("ORRERY_KEY", emulatorKey))
	if err != nil {
		return nil, err
	}
	client, err := azcosmos.NewClientWithKey(setting("ORRERY_ENDPOINT", "http://localhost:8081/"), credential, nil)
	if err != nil {
		return nil, err
	}
	database, err := client.NewDatabase("first-steps")
	if err != nil {
		return nil, err
	}
	if _, err := database.Delete(ctx, nil); err != nil && !isMissing(err) {
		return nil, err
	}
	if _, err := client.CreateDatabase(ctx, azcosmos.DatabaseProperties{ID: "first-steps"}, nil); err != nil {
		return nil, err
	}
	// A container needs a partition key: items that share its value can change in one transaction.
	properties := azcosmos.ContainerProperties{
		ID:                     "bodies",
		PartitionKeyDefinition: azcosmos.PartitionKeyDefinition{Paths: []string{"/star"}},
	}
	if _, err := database.CreateContainer(ctx, properties, nil); err != nil {
		return nil, err
	}
	return database.NewContainer("bodies")
}

// changes reads the feed until there is nothing new; gives names and where to go on.
func changes(
	ctx context.Context, bodies *azcosmos.ContainerClient, options azcosmos.ChangeFeedOptions,
) (names []string, position string, err error) {
	for {
		page, err := bodies.ReadChangeFeed(ctx, &options)
		if err != nil {
			return nil, "", err
		}
		position = page.ContinuationToken
		if len(page.Items) == 0 {
			return names, position, nil
		}
		for _, item := range page.Items {
			names = append(names, decode(item).Name)
		}
		options.Continuation = &position
	}
}

func isMissing(err error) bool {
	var refusal *azcore.ResponseError
	return errors.As(err, &refusal) && refusal.StatusCode == http.StatusNotFound
}

func setting(name, otherwise string) string {
	if value := os.Getenv(name); value != "" {
		return value
	}
	return otherwise
}

func encode(value body) []byte {
	text, err := json.Marshal(value)
	if err != nil {
		panic(err) // A body is always JSON.
	}
	return text
}

func decode(text []byte) (value body) {
	if err := json.Unmarshal(text, &value); err != nil {
		log.Fatalf("%v in %s", err, text)
	}
	return value
}
