// An array that grows for ever: comments stand in buckets beside their post, which shows the newest and their number.
//
//     cd examples/modeling/javascript && npm install
//     node blog_comments.mjs

import { allRows, client, freshDatabase, refused, storeModel } from "./server.mjs";

const comments = 100_000;
// As many operations as a patch may have.
const together = 10;
const blogId = "clouds";
const model = {
  version: 1,
  types: { post: { container: "blog", where: "c.type = 'post'" } },
  buckets: [
    {
      on: "post",
      array: "/comments",
      elementKey: "id",
      recent: { path: "/recentComments", keep: 3 },
      count: "/commentCount",
      bucket: { items: 100, maxBytes: 262144, link: "/postId", idFormat: "{id}~c{seq:06}" },
    },
  ],
};

const append = (n) => {
  const value = { id: `c${n}`, author: "anon", text: "something useful, I am sure" };
  return { op: "add", path: "/comments/-", value };
};
const ids = (list) => list.map((comment) => comment.id).join(" ");

const [blog] = await freshDatabase("blog-comments", [["blog", "/blogId"]]);
await storeModel("blog-comments", model);
const title = "What is new on the coolest cloud";
await blog.items.create({ id: "p1", blogId, type: "post", title, comments: [] });
const patch = async (operations) => (await blog.item("p1", blogId).patch(operations)).resource;
for (let n = 1; n < comments; n += together) {
  await patch(Array.from({ length: together }, (_, i) => append(n + i)));
}
let post = await patch([append(comments + 1)]);
console.log("comments:", post.commentCount);
console.log("the newest:", ids(post.recentComments));
console.log("the post holds them all:", "comments" in post);
console.log("the post takes less than 1 KB:", JSON.stringify(post).length < 1024);

const ofBlog = async (query) => (await blog.items.query(query, { partitionKey: blogId }).fetchAll()).resources;
let rows = await ofBlog("SELECT VALUE c FROM p JOIN c IN p.comments WHERE p.id = 'p1' OFFSET 50000 LIMIT 100");
console.log(`page 501: ${rows.length} comments, ${rows.at(0).id} to ${rows.at(-1).id}`);
const [buckets] = await allRows(blog, "SELECT VALUE COUNT(1) FROM b WHERE b.postId = 'p1'");
console.log("buckets:", buckets);

const { status } = await refused(() => patch([append(17)]));
console.log("a second comment c17:", status);
await patch([{ op: "set", path: "/comments/c17/text", value: "edited" }]);
post = await patch([{ op: "remove", path: "/comments/c18" }]);
console.log("after one is removed:", post.commentCount);
rows = await ofBlog("SELECT VALUE c FROM p JOIN c IN p.comments WHERE p.id = 'p1' OFFSET 16 LIMIT 2");
console.log(`where it was: ${ids(rows)}; c17 says: ${rows[0].text}`);

await blog.item("p1", blogId).delete();
console.log("items left when the post is deleted:", (await allRows(blog, "SELECT VALUE COUNT(1) FROM c"))[0]);
client.dispose();
