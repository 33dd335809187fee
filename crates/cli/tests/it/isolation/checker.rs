//! Finds what no serial execution could have shown. The lists give the order of versions; from it
//! follow the dependencies between transactions:
//!
//! ```text
//! ww  the next element of a list is another transaction's        writer → next writer
//! wr  a read list ends with an element                           its writer → reader
//! rw  a read list lacks the next element                         reader → its writer
//! rt  one transaction was answered before another was sent       first → second
//! ```
//!
//! Transactions that can stand in one line have no cycle. With `rt` the line also keeps the order
//! in which clients saw things happen (strict serializability).

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::fmt;

use super::history::{Element, History, Key, Outcome, Step, Transaction};

/// Something that cannot be, in words; transactions are named by their number in the history.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Anomaly {
    /// An element that nobody appended, or one that is in a list twice.
    Garbage { key: Key, element: Element },
    /// What was acknowledged is not there at the end: a lost update or a lost commit.
    Lost { transaction: usize, key: Key, element: Element },
    /// Something of a transaction that failed was seen.
    Dirty { transaction: usize, key: Key, element: Element },
    /// Of a transaction whose answer did not come, a part is there and a part is not.
    Torn { transaction: usize, key: Key, element: Element },
    /// A list was seen that the list at the end does not begin with.
    Diverged { reader: usize, key: Key },
    /// A list was seen between two appends of one other transaction.
    Intermediate { reader: usize, key: Key },
    /// A transaction did not see what it had appended itself.
    Blind { reader: usize, key: Key },
    /// Each depends on the one before, and the first on the last.
    Cycle(Vec<(usize, Edge)>),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Edge {
    WriteWrite,
    WriteRead,
    ReadWrite,
    RealTime,
}

impl Anomaly {
    /// The transactions that it is about.
    pub(crate) fn transactions(&self) -> Vec<usize> {
        match self {
            Self::Garbage { .. } => vec![],
            Self::Lost { transaction, .. }
            | Self::Dirty { transaction, .. }
            | Self::Torn { transaction, .. } => vec![*transaction],
            Self::Diverged { reader, .. }
            | Self::Intermediate { reader, .. }
            | Self::Blind { reader, .. } => vec![*reader],
            Self::Cycle(edges) => edges.iter().map(|(transaction, _)| *transaction).collect(),
        }
    }
}

impl fmt::Display for Anomaly {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self::Cycle(edges) = self else { return write!(f, "{self:?}") };
        write!(f, "cycle:")?;
        edges.iter().try_for_each(|(transaction, edge)| write!(f, " T{transaction} -{edge:?}→"))
    }
}

/// Who appended an element, and where.
#[derive(Clone, Copy)]
struct Origin {
    transaction: usize,
    key: Key,
}

/// Everything that is wrong with a history; nothing, if it is strictly serializable.
pub(crate) fn check(history: &History) -> Vec<Anomaly> {
    let mut checker = Checker { history, origins: origins(history), found: BTreeSet::new() };
    checker.check_lists();
    checker.check_writers();
    for (number, transaction) in history.transactions.iter().enumerate() {
        if transaction.outcome == Outcome::Committed {
            checker.check_reads(number, transaction);
        }
    }
    let graph = checker.graph();
    let cycles = graph.cycles().into_iter().map(Anomaly::Cycle);
    checker.found.into_iter().chain(cycles).collect()
}

fn origins(history: &History) -> BTreeMap<Element, Origin> {
    let mut origins = BTreeMap::new();
    for (transaction, done) in history.transactions.iter().enumerate() {
        for (key, element) in done.appends() {
            let before = origins.insert(element, Origin { transaction, key });
            assert!(before.is_none(), "the workload appends {element} twice");
        }
    }
    origins
}

struct Checker<'h> {
    history: &'h History,
    origins: BTreeMap<Element, Origin>,
    found: BTreeSet<Anomaly>,
}

impl<'h> Checker<'h> {
    fn last(&self, key: Key) -> &'h [Element] {
        self.history.last.get(&key).map_or(&[], Vec::as_slice)
    }

    fn writer(&self, element: Element) -> Option<usize> {
        self.origins.get(&element).map(|origin| origin.transaction)
    }

    /// Every element at the end was appended to that list, once, by a transaction that did not fail.
    fn check_lists(&mut self) {
        for (key, list) in &self.history.last {
            let mut seen = BTreeSet::new();
            for element in list {
                let is_new = seen.insert(element);
                self.check_element(*key, *element, is_new);
            }
        }
    }

    fn check_element(&mut self, key: Key, element: Element, is_new: bool) {
        let origin = self.origins.get(&element).filter(|origin| origin.key == key && is_new);
        let Some(Origin { transaction, .. }) = origin.copied() else {
            self.found.insert(Anomaly::Garbage { key, element });
            return;
        };
        if self.history.transactions[transaction].outcome == Outcome::Aborted {
            self.found.insert(Anomaly::Dirty { transaction, key, element });
        }
    }

    /// What a transaction appended is all there, or, unless it was acknowledged, none of it.
    fn check_writers(&mut self) {
        for (transaction, done) in self.history.transactions.iter().enumerate() {
            let missing: Vec<_> = done
                .appends()
                .filter(|(key, element)| !self.last(*key).contains(element))
                .collect();
            let is_partly_there = missing.len() < done.appends().count();
            let anomaly = |(key, element): (Key, Element)| match done.outcome {
                Outcome::Committed => Some(Anomaly::Lost { transaction, key, element }),
                Outcome::Unknown if is_partly_there => {
                    Some(Anomaly::Torn { transaction, key, element })
                }
                Outcome::Unknown | Outcome::Aborted => None,
            };
            self.found.extend(missing.into_iter().filter_map(anomaly));
        }
    }

    fn check_reads(&mut self, reader: usize, transaction: &Transaction) {
        let mut own: Vec<(Key, Element)> = Vec::new();
        for step in &transaction.steps {
            let (key, list) = match step {
                Step::Append(key, element) => {
                    own.push((*key, *element));
                    continue;
                }
                Step::Read(key, list) => (*key, list),
            };
            for element in list {
                self.check_element(key, *element, true);
            }
            if own.iter().any(|(of, element)| *of == key && !list.contains(element)) {
                self.found.insert(Anomaly::Blind { reader, key });
            }
            if !self.last(key).starts_with(list) {
                self.found.insert(Anomaly::Diverged { reader, key });
                continue;
            }
            let next = self.last(key).get(list.len()).and_then(|e| self.writer(*e));
            let end = list.last().and_then(|e| self.writer(*e));
            if next.is_some() && next == end && end != Some(reader) {
                self.found.insert(Anomaly::Intermediate { reader, key });
            }
        }
    }

    fn graph(&self) -> Graph {
        let mut graph = Graph::new(self.history.transactions.len());
        for list in self.history.last.values() {
            for pair in list.windows(2) {
                graph.link(self.writer(pair[0]), self.writer(pair[1]), Edge::WriteWrite);
            }
        }
        for (reader, transaction) in self.history.transactions.iter().enumerate() {
            if transaction.outcome != Outcome::Committed {
                continue;
            }
            for step in &transaction.steps {
                let Step::Read(key, list) = step else { continue };
                let before = list.last().and_then(|e| self.writer(*e));
                graph.link(before, Some(reader), Edge::WriteRead);
                let next = self.last(*key).get(list.len()).and_then(|e| self.writer(*e));
                graph.link(Some(reader), next, Edge::ReadWrite);
            }
        }
        graph.link_real_time(&self.history.transactions);
        graph
    }
}

/// Transactions first; behind them moments, through which real time is linked with few edges.
struct Graph {
    transactions: usize,
    edges: Vec<Vec<(usize, Edge)>>,
}

impl Graph {
    fn new(transactions: usize) -> Self {
        Self { transactions, edges: vec![Vec::new(); transactions] }
    }

    fn link(&mut self, from: Option<usize>, to: Option<usize>, edge: Edge) {
        if let (Some(from), Some(to)) = (from, to)
            && from != to
            && !self.edges[from].contains(&(to, edge))
        {
            self.edges[from].push((to, edge));
        }
    }

    /// Each answer is a moment after the one before it; what is sent comes after the last moment.
    fn link_real_time(&mut self, transactions: &[Transaction]) {
        let mut events: Vec<(u64, bool, usize)> = Vec::new();
        for (number, transaction) in transactions.iter().enumerate() {
            // A failed transaction has no place in the line, and an unanswered one no end.
            if transaction.outcome != Outcome::Aborted {
                events.push((transaction.began, false, number));
            }
            if transaction.outcome == Outcome::Committed {
                events.push((transaction.ended, true, number));
            }
        }
        events.sort_unstable();
        let mut moment = None;
        for (_, is_end, number) in events {
            if is_end {
                let next = self.edges.len();
                self.edges.push(Vec::new());
                self.link(moment, Some(next), Edge::RealTime);
                self.link(Some(number), Some(next), Edge::RealTime);
                moment = Some(next);
            } else {
                self.link(moment, Some(number), Edge::RealTime);
            }
        }
    }

    /// A shortest cycle through each knot of transactions that depend on each other.
    fn cycles(&self) -> Vec<Vec<(usize, Edge)>> {
        let knots = self.knots();
        let mut seen = BTreeSet::new();
        let mut cycles = Vec::new();
        for start in 0..self.transactions {
            if let Some(knot) = knots[start]
                && seen.insert(knot)
            {
                cycles.extend(self.shortest_cycle(start, &knots));
            }
        }
        cycles
    }

    /// The strongly connected parts of more than one node, by number (Kosaraju, without recursion).
    fn knots(&self) -> Vec<Option<usize>> {
        let mut backwards = vec![Vec::new(); self.edges.len()];
        for (from, edges) in self.edges.iter().enumerate() {
            for (to, _) in edges {
                backwards[*to].push(from);
            }
        }
        let forwards: Vec<Vec<usize>> =
            self.edges.iter().map(|edges| edges.iter().map(|(to, _)| *to).collect()).collect();
        let mut order = Vec::new();
        let mut visited = vec![false; self.edges.len()];
        for start in 0..self.edges.len() {
            visit(&forwards, start, &mut visited, &mut order);
        }
        let mut knots = vec![None; self.edges.len()];
        visited.fill(false);
        for start in order.into_iter().rev() {
            let mut part = Vec::new();
            visit(&backwards, start, &mut visited, &mut part);
            if part.len() > 1 {
                for node in part {
                    knots[node] = Some(start);
                }
            }
        }
        knots
    }

    fn shortest_cycle(&self, start: usize, knots: &[Option<usize>]) -> Option<Vec<(usize, Edge)>> {
        let mut came_from: BTreeMap<usize, (usize, Edge)> = BTreeMap::new();
        let mut queue = VecDeque::from([start]);
        while let Some(node) = queue.pop_front() {
            for (to, edge) in self.edges[node].iter().filter(|(to, _)| knots[*to] == knots[start]) {
                if came_from.contains_key(to) {
                    continue;
                }
                came_from.insert(*to, (node, *edge));
                if *to == start {
                    return Some(self.path_back(start, &came_from));
                }
                queue.push_back(*to);
            }
        }
        None
    }

    fn path_back(
        &self,
        start: usize,
        came_from: &BTreeMap<usize, (usize, Edge)>,
    ) -> Vec<(usize, Edge)> {
        let mut path = Vec::new();
        let mut node = start;
        loop {
            let (before, edge) = came_from[&node];
            if before < self.transactions {
                path.push((before, edge));
            }
            node = before;
            if node == start {
                path.reverse();
                return path;
            }
        }
    }
}

/// Appends what can be reached from a node and was not visited, each after what it leads to.
fn visit(edges: &[Vec<usize>], start: usize, visited: &mut [bool], order: &mut Vec<usize>) {
    if std::mem::replace(&mut visited[start], true) {
        return;
    }
    let mut stack = vec![(start, 0)];
    while let Some((node, next)) = stack.last_mut() {
        let Some(to) = edges[*node].get(*next).copied() else {
            order.push(*node);
            stack.pop();
            continue;
        };
        *next += 1;
        if !std::mem::replace(&mut visited[to], true) {
            stack.push((to, 0));
        }
    }
}
