(** A loop whose states are bisimilar: the hypotheses of SyncRenumbered.v are seen to be met. *)

From Coq Require Import Bool ZArith Lia List.
From Titan Require Import Expression AnyNumber Sync SyncShift SyncRenumbered.
Import ListNotations.
Open Scope Z_scope.
Opaque local_steps_max.

Section Loop.
Let b : reference := (O, Constant 0).

(* for t in 0 .. n: arrive at b; wait for phase t of b *)
Definition loop_agent : agent := Agent 1 0 0 [0; 0] 0 2 [].
Definition loop_program : program := Program
  [loop_agent]
  [[Loop 0 (Constant 0) (Name 1) 1];
   [Arrive b (Constant 1) (Constant 0) false false; Wait b (Binary Mod (Name 0) (Constant 2)) (Some (Name 0))]]
  [Barrier 1 1 true 0] [] [] [] [] (Policies false false true false false false).

Definition two_lower (_ : nat) (q : position) : position := Position (frames q) (map (fun v => v - 2) (values q)).
Definition inside_loop (a : nat) (q : position) : Prop := (exists t n, values q = [t; n]) /\
  (frames q = [(1%nat, 0%nat); (0%nat, 0%nat)] \/ frames q = [(1%nat, 1%nat); (0%nat, 0%nat)] \/ frames q = []).

(* where control goes, with any number of steps allowed: of the test of the loop only the answer is looked at *)
Lemma first_moves fuel t n : settle loop_program fuel loop_agent [(1%nat, 1%nat); (0%nat, 0%nat)] [t; n] =
  match fuel with O => Undefined | S _ => Done (Position [(1%nat, 1%nat); (0%nat, 0%nat)] [t; n]) end.
Proof. now destruct fuel. Qed.

Lemma second_moves fuel t n : settle loop_program fuel loop_agent [(1%nat, 2%nat); (0%nat, 0%nat)] [t; n] =
  match fuel with
  | S (S _) => Done (Position (if t + 1 <? n then [(1%nat, 0%nat); (0%nat, 0%nat)] else []) [t + 1; n])
  | _ => Undefined
  end.
Proof.
  destruct fuel as [|fuel]; [easy|].
  change (settle loop_program (S fuel) loop_agent [(1%nat, 2%nat); (0%nat, 0%nat)] [t; n]) with
    (settle loop_program fuel loop_agent (if t + 1 <? n then [(1%nat, 0%nat); (0%nat, 0%nat)] else [(0%nat, 1%nat)]) [t + 1; n]).
  destruct (t + 1 <? n); now destruct fuel.
Qed.

(** Whatever [t] and [n] are, and whatever else is in the state: [t], [n] and the phase can be lowered by 2. *)
Theorem loop_bisimilar s : all_high inside_loop s -> bisimilar _ (sync_step loop_program) (sync_bad loop_program)
  (Some s) (Some (re two_lower (fun _ => 2) (fun _ => lower_tile 0) (fun _ => 0) (fun k => k) (fun c => c) s)).
Proof.
  apply renumbered_bisimilar; try easy.
  - intros c t u. now apply lower_tile_one.
  - intros [|[|a]] q g o [(t & n & V) F] G; try easy; injection G as <-; unfold op_of; cbn [two_lower values]; rewrite V.
    destruct F as [-> |[-> | ->]]; cbn; intros [= <-]; cbn.
    + now split.
    + split; [easy|]. split.
      * intros k _. exists 0. split; [|easy]. unfold value. cbn. f_equal.
        replace (t - 2) with (t + (-1) * 2) by lia. rewrite Z.mod_add by lia. lia.
      * intros e [= <-] k _. easy.
  - intros [|[|a]] q g b0 i outer [(t & n & V) F] G; try easy; injection G as <-; unfold two_lower; cbn [values map]; rewrite V.
    destruct F as [-> |[-> | ->]]; intros [= <- <- <-]; generalize local_steps_max; intros fuel; cbn [map].
    + rewrite !first_moves. now destruct fuel.
    + rewrite !second_moves. replace (t - 2 + 1 <? n - 2) with (t + 1 <? n) by (apply eq_true_iff_eq; rewrite !Z.ltb_lt; lia).
      replace (t - 2 + 1) with (t + 1 - 2) by lia. destruct fuel as [|[|fuel]]; [easy| |]; now destruct (t + 1 <? n).
  - intros [|[|a]] q g b0 i outer r [(t & n & V) F] G; try easy; injection G as <-; rewrite V.
    destruct F as [-> |[-> | ->]]; intros [= <- <- <-]; generalize local_steps_max; intros fuel.
    + rewrite first_moves. destruct fuel; [easy|]. intros [= <-]. split; cbn; eauto.
    + rewrite second_moves. destruct fuel as [|[|fuel]]; [easy| |]; destruct (t + 1 <? n); intros [= <-] || easy; split; cbn; eauto.
Qed.

End Loop.
