//! The clauses of a query.

use orrery_types::Value;

use super::Parser;
use crate::ast::{
    Collection, Count, CountValue, Direction, Expr, ExprKind, OrderBy, Select, SelectItem,
    Selection, SortKey, Source,
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
        self.expect_word("SELECT")?;
        let distinct = self.accept_word("DISTINCT");
        let top = if self.accept_word("TOP") { Some(self.count()?) } else { None };
        let selection = self.selection()?;
        let from = self.sources()?;
        let filter = if self.accept_word("WHERE") { Some(self.expr()?) } else { None };
        let group_by = self.group_by_clause()?;
        let order_by = self.order_by_clause()?;
        let offset_limit = if self.accept_word("OFFSET") {
            let offset = self.count()?;
            self.expect_word("LIMIT")?;
            Some((offset, self.count()?))
        } else {
            None
        };
        let span = start.to(self.previous_span());
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
        })
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
        })
    }

    fn count(&mut self) -> Result<Count, QueryError> {
        let token = self.peek();
        let text = self.text_of(token);
        let value = match token.kind {
            TokenKind::Parameter => CountValue::Parameter(text.into()),
            // Digits beyond 64 bits are still a number, and past every limit.
            TokenKind::Number if text.bytes().all(|b| b.is_ascii_digit()) => {
                CountValue::Number(text.parse().unwrap_or(u64::MAX))
            }
            TokenKind::Hex => {
                CountValue::Number(u64::from_str_radix(&text[2..], 16).unwrap_or(u64::MAX))
            }
            _ => return Err(self.unexpected()),
        };
        self.advance();
        Ok(Count { span: token.span, value })
    }

    fn selection(&mut self) -> Result<Selection, QueryError> {
        if self.accept(TokenKind::Star) {
            return Ok(Selection::Star);
        }
        if self.is_word("VALUE") && self.value_is_keyword() {
            self.advance();
            return Ok(Selection::Value(self.expr()?));
        }
        let mut items = Vec::new();
        loop {
            let expr = self.expr()?;
            let alias = self.alias()?;
            items.push(SelectItem { expr, alias });
            if !self.accept(TokenKind::Comma) {
                return Ok(Selection::List(items));
            }
        }
    }

    /// `VALUE` may also be the name of an alias: then an operator, a comma or a clause follows.
    fn value_is_keyword(&self) -> bool {
        let next = self.peek_after(1);
        match next.kind {
            TokenKind::Word => {
                const STARTS: [&str; 7] =
                    ["NOT", "EXISTS", "ARRAY", "NULL", "TRUE", "FALSE", "UNDEFINED"];
                self.is_identifier(next)
                    || self.token_is_word(next, "UDF")
                    || STARTS.iter().any(|w| self.token_is_word(next, w))
            }
            TokenKind::Dot | TokenKind::Comma | TokenKind::End => false,
            _ => true,
        }
    }

    fn alias(&mut self) -> Result<Option<std::sync::Arc<str>>, QueryError> {
        if self.accept_word("AS") || self.is_identifier(self.peek()) {
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
        let start = self.peek().span;
        let next = self.peek_after(1);
        if self.is_identifier(self.peek()) && self.token_is_word(next, "IN") {
            let alias = Some(self.identifier()?);
            self.advance();
            let collection = if self.opens_subquery() {
                self.subquery_collection()?
            } else {
                Collection::Expr(self.expr()?)
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
        self.expect_word("BY")?;
        // RANK is an alias too; it is the keyword when a word follows it.
        if self.is_word("RANK") && self.peek_after(1).kind == TokenKind::Word {
            self.advance();
            return self.rank_scores().map(Some);
        }
        let mut keys = vec![self.sort_key()?];
        while self.accept(TokenKind::Comma) {
            keys.push(self.sort_key()?);
        }
        Ok(Some(OrderBy::Keys(keys)))
    }

    fn rank_scores(&mut self) -> Result<OrderBy, QueryError> {
        let mut scores = vec![self.score()?];
        while self.accept(TokenKind::Comma) {
            scores.push(self.score()?);
        }
        if self.is_word("ASC") || self.is_word("DESC") {
            return Err(QueryError::runtime(
                "Specifying a sort order (ASC or DESC) in the ORDER BY RANK clause is not allowed.",
            ));
        }
        Ok(OrderBy::Rank(scores))
    }

    /// A call, whatever it calls: an operator's text would need parentheses, and would then read as
    /// a call of RANK.
    fn score(&mut self) -> Result<Expr, QueryError> {
        let score = self.expr()?;
        match *score.kind {
            ExprKind::Call(..) => Ok(score),
            _ => Err(QueryError::not_a_score(self.text, score.span)),
        }
    }

    fn sort_key(&mut self) -> Result<SortKey, QueryError> {
        let expr = self.expr()?;
        let direction = if self.accept_word("ASC") {
            Some(Direction::Ascending)
        } else if self.accept_word("DESC") {
            Some(Direction::Descending)
        } else {
            None
        };
        Ok(SortKey { expr, direction })
    }
}
