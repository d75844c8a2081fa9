BEGIN TRANSACTION;
CREATE TABLE "configs_v1" (
   "problem" TEXT PRIMARY KEY,
   "family" TEXT,
   "sizes" TEXT,
   "config" TEXT,
   "origin" TEXT,
   "time_ns" REAL,
   "default_ns" REAL,
   "updated" REAL
);
INSERT INTO "configs_v1" VALUES('2a011ee2616aa436','7f8f7fdcc0dcc7c2','[100, 128, 100]','{"g0.form":"panel","g0.mr":6,"g0.nr":32,"g0.pack":false,"partition":"s0 s1","threads":2}','tuned',640.25,812.5,1763800009.0);
INSERT INTO "configs_v1" VALUES('f6c092949a7ec7a0','7f8f7fdcc0dcc7c2','[64, 128, 100]','{"g0.form":"panel","g0.mr":6,"g0.nr":32,"g0.pack":true,"partition":"s0 s1","threads":2}','search',402.0,NULL,1763800010.0);
CREATE TABLE "problems_v1" (
   "digest" TEXT PRIMARY KEY,
   "family" TEXT,
   "name" TEXT,
   "key" TEXT,
   "text" TEXT,
   "created" REAL
);
INSERT INTO "problems_v1" VALUES('2a011ee2616aa436','7f8f7fdcc0dcc7c2','fcrelu B=100 M=128 N=100','{"compiler": "gcc 14.2.0", "dtypes": ["float32", "float32", "float32", "float32"], "generator": "0123456789ab", "layout": "((1, ()), (1, ()), (1, ()), (1, ()))", "sizes": [100, 128, 100], "target": "cpu avx512", "text": "7d54ac62d9a9b1ce", "threads": 2}','def fcrelu(float(B,M) I) -> (O) {}',1763800000.0);
INSERT INTO "problems_v1" VALUES('f6c092949a7ec7a0','7f8f7fdcc0dcc7c2','fcrelu B=64 M=128 N=100','{"compiler": "gcc 14.2.0", "dtypes": ["float32", "float32", "float32", "float32"], "generator": "0123456789ab", "layout": "((1, ()), (1, ()), (1, ()), (1, ()))", "sizes": [64, 128, 100], "target": "cpu avx512", "text": "7d54ac62d9a9b1ce", "threads": 2}','def fcrelu(float(B,M) I) -> (O) {}',1763800001.0);
CREATE TABLE "trials_v1" (
   "id" INTEGER PRIMARY KEY,
   "problem" TEXT,
   "config" TEXT,
   "status" TEXT,
   "reason" TEXT,
   "detail" TEXT,
   "times_ns" TEXT,
   "owner" TEXT,
   "origin" TEXT,
   "text" TEXT,
   "time_ns" REAL,
   "created" REAL,
   "updated" REAL
);
INSERT INTO "trials_v1" VALUES(1,'2a011ee2616aa436','{"g0.form":"panel","g0.mr":6,"g0.nr":32,"g0.pack":true,"partition":"s0 s1","threads":2}','timed','','','[812.5, 830.0]','elsewhere/00000000/1:17:42:00ff00ff','model','t1',812.5,1763800002.0,1763800006.0);
INSERT INTO "trials_v1" VALUES(2,'2a011ee2616aa436','{"g0.form":"panel","g0.mr":6,"g0.nr":32,"g0.pack":false,"partition":"s0 s1","threads":2}','timed','','','[640.2]','elsewhere/00000000/1:17:42:00ff00ff','model','t2',640.25,1763800002.0,1763800006.0);
INSERT INTO "trials_v1" VALUES(3,'2a011ee2616aa436','{"g0.form":"panel","g0.mr":8,"g0.nr":32,"g0.pack":true,"partition":"s0 s1","threads":2}','failed','compile','too many registers','[]','elsewhere/00000000/1:17:42:00ff00ff','model','t3',NULL,1763800002.0,1763800007.0);
INSERT INTO "trials_v1" VALUES(4,'2a011ee2616aa436','{"g0.form":"panel","g0.mr":8,"g0.nr":32,"g0.pack":false,"partition":"s0 s1","threads":2}','running','','','[]','elsewhere/00000000/1:17:42:00ff00ff','model','t4',NULL,1763800002.0,1763800005.0);
INSERT INTO "trials_v1" VALUES(5,'2a011ee2616aa436','{"g0.form":"panel","g0.mr":12,"g0.nr":32,"g0.pack":true,"partition":"s0 s1","threads":2}','compiled','','','[]','elsewhere/00000000/1:17:42:00ff00ff','model','t5',NULL,1763800002.0,1763800008.0);
INSERT INTO "trials_v1" VALUES(6,'2a011ee2616aa436','{"g0.form":"panel","g0.mr":12,"g0.nr":32,"g0.pack":false,"partition":"s0 s1","threads":2}','proposed','','','[]','elsewhere/00000000/1:17:42:00ff00ff','model','t6',NULL,1763800002.0,1763800004.0);
CREATE UNIQUE INDEX "idx_trials_v1_problem_config"
    ON "trials_v1" ("problem", "config");
COMMIT;
