(** Extraction of the semantics and of the checkers to OCaml; sync_machine.ml reads and prints. *)

From Coq Require Import ExtrOcamlBasic Extraction FMapPositive List.
From Titan Require Import Expression Sync SyncClosed SyncCertificate SyncIndependent SyncPossible.
Import ListNotations.

(** In the order of titan/sync/expression.py, BINARY_OPERATORS. *)
Definition operators : list operator :=
  [Add; Sub; Mul; Div; Mod; Min; Max; Lt; Le; Expression.Eq; Ne; Ge; Gt; And; Or].

Set Warnings "-extraction-default-directory,-extraction-opaque-accessed".
Extraction "sync_semantics.ml" operators initial steps apply_step state_fault rank code certified
  label same_step accepted independent stays PositiveMap.empty PositiveMap.add.
