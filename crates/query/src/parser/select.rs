//! The clauses of a query.

use orrery_types::Value;

use super::Parser;
use crate::ast::{
    ClauseSpans, Collection, Count, CountValue, Direction, Expr, ExprKind, OrderBy, Select,
    SelectItem, Selection, SortKey, Source, Span,
};
use crate::error::QueryError;
use crate::lexer::TokenKind;

impl Parser<'_> {
    /// A query; the current token should be SELECT.
    pub(super) fn select(&mut self) -> Result<Select, QueryError> {
        self.nested(Self::select_clauses)
    }

    fn select_clauses(&mut self) -> Result<Select, QueryError> {
        let start = self.peek().span;
        let mut clauses = ClauseSpans::default();
        self.expect_word("SELECT")?;
        let distinct = self.accept_word("DISTINCT");
        let (top, span) = self.clause(|parser| {
            if parser.accept_word("TOP") { parser.top_count().map(Some) } else { Ok(None) }
        })?;
        clauses.top = span;
        let star = self.peek().span;
        let selection = self.selection()?;
        clauses.head = start.to(self.previous_span());
        let (from, span) = self.clause(Self::sources)?;
        // Messages about the sources leave FROM out.
        clauses.sources = from.first().map_or(span, |first| first.span.to(span));
        if matches!(selection, Selection::Star) && from.is_empty() {
            let message = "Syntax error, 'SELECT *' is not valid if FROM clause is omitted.";
            self.note(star, "SC1021", message);
        }
        let filter = if self.accept_word("WHERE") { Some(self.expr()?) } else { None };
        let (group_by, span) = self.clause(Self::group_by_clause)?;
        clauses.group_by = span;
        let (order_by, span) = self.clause(Self::order_by_clause)?;
        clauses.order_by = span;
        let (offset_limit, span) = self.clause(Self::offset_limit_clause)?;
        clauses.offset_limit = span;
        let span = start.to(self.previous_span());
        if top.is_some() && offset_limit.is_some() {
            let message = "A TOP cannot be used in the same query or subquery as an OFFSET.";
            self.note(span, "SC2205", message);
        }
        Ok(Select {
            span,
            distinct,
            top,
            selection,
            from,
            filter,
            group_by,
            order_by,
            offset_limit,
            clauses,
        })
    }

    /// A clause, and where it stands.
    fn clause<T>(
        &mut self,
        parse: impl FnOnce(&mut Self) -> Result<T, QueryError>,
    ) -> Result<(T, Span), QueryError> {
        let (start, at) = (self.peek().span, self.at);
        let parsed = parse(self)?;
        let is_written = self.at > at;
        Ok((parsed, if is_written { start.to(self.previous_span()) } else { Span::default() }))
    }

    fn offset_limit_clause(&mut self) -> Result<Option<(Count, Count)>, QueryError> {
        if !self.accept_word("OFFSET") {
            return Ok(None);
        }
        let offset = self.count()?;
        self.expect_word("LIMIT")?;
        Ok(Some((offset, self.count()?)))
    }

    /// `FROM c WHERE …`; the value it selects is `true`.
    pub(super) fn condition(&mut self) -> Result<Select, QueryError> {
        let start = self.peek().span;
        if !self.is_word("FROM") {
            return Err(self.unexpected());
        }
        let from = self.sources()?;
        self.expect_word("WHERE")?;
        let filter = Some(self.expr()?);
        let span = start.to(self.previous_span());
        let selected = Expr::new(ExprKind::Literal(Value::Bool(true)), span);
        Ok(Select {
            span,
            distinct: false,
            top: None,
            selection: Selection::Value(selected),
            from,
            filter,
            group_by: Vec::new(),
            order_by: None,
            offset_limit: None,
            clauses: ClauseSpans::default(),
        })
    }

    /// A number of rows as OFFSET and LIMIT take it: digits, or a parameter.
    fn count(&mut self) -> Result<Count, QueryError> {
        let token = self.peek();
        let text = self.text_of(token);
        let value = match token.kind {
            TokenKind::Parameter => CountValue::Parameter(text.into()),
            // Digits beyond 64 bits are a number, but none of rows.
            TokenKind::Integer => {
                let number = text.parse::<i64>().map_err(|_| self.unexpected())?;
                CountValue::Number(number.unsigned_abs())
            }
            TokenKind::Hex => {
                CountValue::Number(u64::from_str_radix(&text[2..], 16).unwrap_or(u64::MAX))
            }
            _ => return Err(self.unexpected()),
        };
        self.advance();
        Ok(Count { span: token.span, value })
    }

    /// TOP takes any notation of a whole number.
    fn top_count(&mut self) -> Result<Count, QueryError> {
        let token = self.peek();
        if !matches!(token.kind, TokenKind::Integer | TokenKind::Decimal) {
            return self.count();
        }
        self.advance();
        let number: f64 = self.text_of(token).parse().unwrap_or(f64::NAN);
        let whole = Value::from(number).as_i64().and_then(|n| u64::try_from(n).ok());
        if whole.is_none() {
            let message = "The count value provided for a TOP clause must be an integer.";
            self.note(token.span, "SC2060", message);
        }
        Ok(Count { span: token.span, value: CountValue::Number(whole.unwrap_or(0)) })
    }

    fn selection(&mut self) -> Result<Selection, QueryError> {
        if self.accept(TokenKind::Star) {
            return Ok(Selection::Star);
        }
        if self.accept_word("VALUE") {
            return Ok(Selection::Value(self.expr()?));
        }
        let mut items = Vec::new();
        let mut names = Vec::new();
        loop {
            let expr = self.expr()?;
            let (alias, named) = self.select_alias()?;
            let name = alias.clone().or_else(|| expr.own_name().cloned());
            let span = named.unwrap_or_else(|| self.name_span());
            names.extend(name.map(|name| (name, span)));
            items.push(SelectItem { expr, alias });
            if !self.accept(TokenKind::Comma) {
                self.note_repeated(&names);
                return Ok(Selection::List(items));
            }
        }
    }

    /// Where the name stands that the path before the current token ends with.
    fn name_span(&self) -> Span {
        let behind = |n: usize| self.tokens[self.at.saturating_sub(n).min(self.tokens.len() - 1)];
        let last = behind(1);
        if last.kind == TokenKind::CloseBracket { behind(2).span } else { last.span }
    }

    /// The alias of an element of the select list and its place; behind AS it may be a string.
    fn select_alias(&mut self) -> Result<(Option<std::sync::Arc<str>>, Option<Span>), QueryError> {
        let alias = if self.accept_word("AS") {
            Some(self.name()?)
        } else if self.is_identifier(self.peek()) {
            Some(self.identifier()?)
        } else {
            None
        };
        let span = alias.as_ref().map(|_| self.previous_span());
        Ok((alias, span))
    }

    fn alias(&mut self) -> Result<Option<std::sync::Arc<str>>, QueryError> {
        if self.accept_word("AS") || (self.is_identifier(self.peek())) {
            return self.identifier().map(Some);
        }
        Ok(None)
    }

    fn sources(&mut self) -> Result<Vec<Source>, QueryError> {
        let mut sources = Vec::new();
        if self.accept_word("FROM") {
            sources.push(self.source()?);
            while self.accept_word("JOIN") {
                sources.push(self.source()?);
            }
        }
        Ok(sources)
    }

    fn source(&mut self) -> Result<Source, QueryError> {
        if self.is(TokenKind::OpenParen) && !self.opens_subquery() {
            self.advance();
            return Err(self.unexpected());
        }
        let start = self.peek().span;
        let next = self.peek_after(1);
        if self.is_identifier(self.peek()) && self.token_is_word(next, "IN") {
            let alias = Some(self.identifier()?);
            self.advance();
            let collection = if self.opens_subquery() {
                self.subquery_collection()?
            } else {
                Collection::Expr(self.path()?)
            };
            let span = start.to(self.previous_span());
            return Ok(Source { span, alias, iterates: true, collection });
        }
        let collection = if self.opens_subquery() {
            self.subquery_collection()?
        } else {
            Collection::Expr(self.path()?)
        };
        let alias = self.alias()?;
        let span = start.to(self.previous_span());
        Ok(Source { span, alias, iterates: false, collection })
    }

    fn subquery_collection(&mut self) -> Result<Collection, QueryError> {
        self.expect(TokenKind::OpenParen)?;
        let select = self.select()?;
        self.expect(TokenKind::CloseParen)?;
        Ok(Collection::Subquery(Box::new(select)))
    }

    pub(super) fn opens_subquery(&self) -> bool {
        self.is(TokenKind::OpenParen) && self.token_is_word(self.peek_after(1), "SELECT")
    }

    fn group_by_clause(&mut self) -> Result<Vec<Expr>, QueryError> {
        let mut keys = Vec::new();
        if self.accept_word("GROUP") {
            self.expect_word("BY")?;
            keys.push(self.expr()?);
            while self.accept(TokenKind::Comma) {
                keys.push(self.expr()?);
            }
        }
        Ok(keys)
    }

    fn order_by_clause(&mut self) -> Result<Option<OrderBy>, QueryError> {
        if !self.accept_word("ORDER") {
            return Ok(None);
        }
        let start = self.previous_span();
        self.expect_word("BY")?;
        // RANK is an alias too; it is the keyword when a word follows it.
        if self.is_word("RANK") && self.peek_after(1).kind == TokenKind::Word {
            self.advance();
            return self.rank_score(start).map(Some);
        }
        let mut keys = vec![self.sort_key()?];
        while self.accept(TokenKind::Comma) {
            keys.push(self.sort_key()?);
        }
        Ok(Some(OrderBy::Keys(keys)))
    }

    fn rank_score(&mut self, start: Span) -> Result<OrderBy, QueryError> {
        let score = self.score()?;
        if self.accept_word("ASC") || self.accept_word("DESC") {
            let message =
                "Specifying a sort order (ASC or DESC) in the ORDER BY RANK clause is not allowed.";
            self.note(start.to(self.previous_span()), "SC2222", message);
        }
        Ok(OrderBy::Rank(score))
    }

    /// A call, whatever it calls: an operator's text would need parentheses, and would then read as
    /// a call of RANK.
    fn score(&mut self) -> Result<Expr, QueryError> {
        // What follows a call is no part of it.
        let is_call = self.peek_after(1).kind == TokenKind::OpenParen;
        let score = if is_call { self.call()? } else { self.expr()? };
        match *score.kind {
            ExprKind::Call(..) => Ok(score),
            _ => Err(QueryError::not_a_score(self.text, score.span)),
        }
    }

    fn sort_key(&mut self) -> Result<SortKey, QueryError> {
        let expr = self.expr()?;
        let start = expr.span;
        let direction = if self.accept_word("ASC") {
            Some(Direction::Ascending)
        } else if self.accept_word("DESC") {
            Some(Direction::Descending)
        } else {
            None
        };
        Ok(SortKey { expr, direction, span: start.to(self.previous_span()) })
    }
}
