// First steps: connect, make a container, store and read items, query, write a batch, follow changes.
//
//   dotnet run --project examples/dotnet
//
// Not among the examples that `cargo xtask examples` runs: .NET is not on the machines that test them.
using System.Globalization;
using System.Net;
using Microsoft.Azure.Cosmos;

var endpoint = Environment.GetEnvironmentVariable("ORRERY_ENDPOINT") ?? "http://localhost:8081/";
// The key that every emulator is known by; a server that listens on this machine only takes it.
var key = Environment.GetEnvironmentVariable("ORRERY_KEY")
    ?? "C2y6yDjf5/R+ob0N8A7Cgv30VRDJIWEHLM+4QDU5DE2nQ9nDuVTqobD4b8mGGyPMbIZnqyMsEcaGQy67XIw/Jw==";

// What was known before 1610, with the distance from the Sun in astronomical units.
Body[] planets =
[
    Planet("Mercury", 0.39, 0), Planet("Venus", 0.72, 0), Planet("Earth", 1.0, 1),
    Planet("Mars", 1.52, 0), Planet("Jupiter", 5.2, 0), Planet("Saturn", 9.58, 0),
];

// Plain HTTP needs Gateway mode; Direct mode needs HTTPS and a certificate that this machine trusts.
using var client = new CosmosClient(endpoint, key, new CosmosClientOptions { ConnectionMode = ConnectionMode.Gateway });

// What an earlier run has left is removed.
try
{
    await client.GetDatabase("first-steps").DeleteAsync();
}
catch (CosmosException missing) when (missing.StatusCode == HttpStatusCode.NotFound)
{
}

// A container needs a partition key: items that share its value can change in one transaction.
Database database = await client.CreateDatabaseAsync("first-steps");
Container bodies = await database.CreateContainerAsync("bodies", "/star");
var sun = new PartitionKey("Sun");

// Items are JSON; `id` is the only property they must have.
foreach (var planet in planets)
{
    await bodies.CreateItemAsync(planet, sun);
}
Console.WriteLine($"stored: {string.Join(", ", planets.Select(planet => planet.name))}");

// The fastest way to an item is its id together with its partition key.
Body earth = await bodies.ReadItemAsync<Body>("earth", sun);
Console.WriteLine($"read: {earth.name} has {earth.moons} moon");

// A query, with a parameter instead of pasted text.
var query = new QueryDefinition("SELECT b.name, b.au FROM b WHERE b.kind = 'planet' AND b.au > @au ORDER BY b.au")
    .WithParameter("@au", earth.au);
var beyond = new List<string>();
using (var pages = bodies.GetItemQueryIterator<Body>(query, requestOptions: new QueryRequestOptions { PartitionKey = sun }))
{
    while (pages.HasMoreResults)
    {
        beyond.AddRange((await pages.ReadNextAsync()).Select(
            body => string.Create(CultureInfo.InvariantCulture, $"{body.name} {body.au:F2}")));
    }
}
Console.WriteLine($"beyond Earth: {string.Join(", ", beyond)}");

// The change feed tells every change since the beginning, and where to go on.
var (changes, position) = await Changes(ChangeFeedStartFrom.Beginning());
Console.WriteLine($"change feed: {changes.Count} changes");

// Galileo looks at Jupiter: four moons and their count are written together, or not at all.
var batch = bodies.CreateTransactionalBatch(sun);
foreach (var name in new[] { "Io", "Europa", "Ganymede", "Callisto" })
{
    batch.CreateItem(Moon(name, "jupiter"));
}
await batch.ReplaceItem("jupiter", Planet("Jupiter", 5.2, 4)).ExecuteAsync();
Body jupiter = await bodies.ReadItemAsync<Body>("jupiter", sun);
Console.WriteLine($"batch: Jupiter has {jupiter.moons} moons");

// Io is there already: the whole batch is refused, and nothing of it remains.
var refusal = await bodies.CreateTransactionalBatch(sun)
    .CreateItem(Planet("Vulcan", 0.14, 0)).CreateItem(Moon("Io", "jupiter")).ExecuteAsync();
using var vulcan = await bodies.ReadItemStreamAsync("vulcan", sun);
Console.WriteLine($"batch refused with {(int)refusal.StatusCode}: there is {(vulcan.IsSuccessStatusCode ? "a" : "no")} Vulcan");

// What has changed since.
(changes, _) = await Changes(ChangeFeedStartFrom.ContinuationToken(position));
Console.WriteLine($"change feed: {string.Join(", ", changes.Select(body => body.name).Order())}");

async Task<(List<Body>, string)> Changes(ChangeFeedStartFrom start)
{
    var found = new List<Body>();
    using var feed = bodies.GetChangeFeedIterator<Body>(start, ChangeFeedMode.LatestVersion);
    while (true)
    {
        var page = await feed.ReadNextAsync();
        if (page.StatusCode == HttpStatusCode.NotModified)
        {
            return (found, page.ContinuationToken);
        }
        found.AddRange(page);
    }
}

static Body Planet(string name, double au, int moons) => new(name.ToLowerInvariant(), "Sun", "planet", name, au, moons, null);

static Body Moon(string name, string planet) => new(name.ToLowerInvariant(), "Sun", "moon", name, null, null, planet);

// Property names are those of the JSON.
record Body(string id, string star, string kind, string name, double? au, int? moons, string? planet);
