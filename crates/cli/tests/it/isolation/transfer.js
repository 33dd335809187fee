// What a client wishes, as a stored procedure: reads accounts, or all of them by a query, then moves
// money as long as it is there. Answers with every account as it was seen.
function transfer(reads, appends) {
  const collection = getContext().getCollection();
  const place = (id) => `${collection.getAltLink()}/docs/${id}`;
  const seen = [];

  function must(accepted) {
    if (!accepted) throw new Error("There is no time left.");
  }

  function then(next) {
    return (error, result) => {
      if (error) throw error;
      next(result);
    };
  }

  function survey() {
    const query = "SELECT * FROM c";
    must(collection.queryDocuments(collection.getSelfLink(), query, { pageSize: 100 }, then((all) => {
      seen.push(...all);
      append(0);
    })));
  }

  function read(at) {
    if (at === reads.length) return append(0);
    must(collection.readDocument(place(reads[at]), then((account) => {
      seen.push(account);
      read(at + 1);
    })));
  }

  function append(at) {
    if (at === appends.length) return getContext().getResponse().setBody(seen);
    const { id, element, amount } = appends[at];
    must(collection.readDocument(place(id), then((account) => {
      account.balance += amount;
      if (account.balance < 0) throw new Error("There is no money left.");
      account.list.push(element);
      must(collection.replaceDocument(account._self, account, then((after) => {
        seen.push(after);
        append(at + 1);
      })));
    })));
  }

  if (reads) read(0);
  else survey();
}
