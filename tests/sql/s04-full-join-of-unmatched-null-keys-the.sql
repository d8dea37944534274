-- S04, risingwave#8084, #8059: FULL JOIN of unmatched NULL keys: the two (NULL,NULL) rows collide as one key.
CREATE TABLE t (a int);
CREATE VIEW v AS select x.a xa,y.a ya from t x full join t y on x.a=y.a;
--! +t(NULL)
--= (NULL, NULL) x2
--! +t(NULL) +t(1)
--= (1, 1) (NULL, NULL) x4
--! -t(NULL)
--= (1, 1) (NULL, NULL) x2
