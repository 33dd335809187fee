"""An array that grows for ever: comments stand in buckets beside their post, which shows the newest and their number.

    pip install azure-cosmos
    python examples/modeling/python/blog_comments.py
"""

import json

from server import all_rows, fresh_database, refused, store_model, yes

COMMENTS = 100_000
# As many operations as a patch may have.
TOGETHER = 10
BLOG = "clouds"
MODEL = {
    "version": 1,
    "types": {"post": {"container": "blog", "where": "c.type = 'post'"}},
    "buckets": [
        {
            "on": "post",
            "array": "/comments",
            "elementKey": "id",
            "recent": {"path": "/recentComments", "keep": 3},
            "count": "/commentCount",
            "bucket": {"items": 100, "maxBytes": 262144, "link": "/postId", "idFormat": "{id}~c{seq:06}"},
        }
    ],
}


def append(n):
    comment = {"id": f"c{n}", "author": "anon", "text": "something useful, I am sure"}
    return {"op": "add", "path": "/comments/-", "value": comment}


def ids(comments):
    return " ".join(comment["id"] for comment in comments)


def main():
    [blog] = fresh_database("blog-comments", [("blog", "/blogId")])
    store_model("blog-comments", MODEL)
    title = "What is new on the coolest cloud"
    blog.create_item({"id": "p1", "blogId": BLOG, "type": "post", "title": title, "comments": []})
    for n in range(1, COMMENTS, TOGETHER):
        blog.patch_item("p1", BLOG, [append(n + i) for i in range(TOGETHER)])
    post = blog.patch_item("p1", BLOG, [append(COMMENTS + 1)])
    print("comments:", post["commentCount"])
    print("the newest:", ids(post["recentComments"]))
    print("the post holds them all:", yes("comments" in post))
    print("the post takes less than 1 KB:", yes(len(json.dumps(post)) < 1024))

    page = "SELECT VALUE c FROM p JOIN c IN p.comments WHERE p.id = 'p1' OFFSET 50000 LIMIT 100"
    rows = list(blog.query_items(page, partition_key=BLOG))
    print(f"page 501: {len(rows)} comments, {ids(rows[:1])} to {ids(rows[-1:])}")
    buckets = "SELECT VALUE COUNT(1) FROM b WHERE b.postId = 'p1'"
    print("buckets:", all_rows(blog, buckets)[0])

    status, _ = refused(lambda: blog.patch_item("p1", BLOG, [append(17)]))
    print("a second comment c17:", status)
    blog.patch_item("p1", BLOG, [{"op": "set", "path": "/comments/c17/text", "value": "edited"}])
    post = blog.patch_item("p1", BLOG, [{"op": "remove", "path": "/comments/c18"}])
    print("after one is removed:", post["commentCount"])
    first = "SELECT VALUE c FROM p JOIN c IN p.comments WHERE p.id = 'p1' OFFSET 16 LIMIT 2"
    rows = list(blog.query_items(first, partition_key=BLOG))
    print(f"where it was: {ids(rows)}; c17 says: {rows[0]['text']}")

    blog.delete_item("p1", BLOG)
    print("items left when the post is deleted:", all_rows(blog, "SELECT VALUE COUNT(1) FROM c")[0])


if __name__ == "__main__":
    main()
