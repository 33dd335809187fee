// Creates items, or upserts them, as many as the time allows, and answers how many: a client goes on
// behind them. A refusal undoes all, unless the options let it be the end.
function commonBulkInsert(documents, options) {
  const collection = getContext().getCollection();
  const response = getContext().getResponse();
  const { enableUpsert, softStopOnConflict, softStopOnBadRequest, disableAutomaticIdGeneration } =
    options ?? {};
  let count = 0;
  if (!Array.isArray(documents)) {
    throw new Error(ErrorCodes.BadRequest, "The first argument must be an array of documents.");
  }
  end(0);
  next();

  function end(errorCode) {
    response.setBody({ count, errorCode });
  }

  function next() {
    if (count === documents.length) {
      return;
    }
    const write = enableUpsert ? collection.upsertDocument : collection.createDocument;
    write(collection.getSelfLink(), documents[count], { disableAutomaticIdGeneration }, done);
  }

  function done(error) {
    if (error === undefined) {
      count += 1;
      end(0);
      next();
      return;
    }
    const isConflict = error.number === ErrorCodes.Conflict && softStopOnConflict;
    if (!isConflict && !(error.number === ErrorCodes.BadRequest && softStopOnBadRequest)) {
      throw error;
    }
    end(error.number);
  }
}
