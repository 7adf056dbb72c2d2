(** The actions of steps on barriers, pools, named barriers and queues. *)

From Coq Require Import Bool ZArith Lia List.
From Titan Require Import Expression Sync SyncShift SyncFrames SyncParts.
Import ListNotations.
Open Scope Z_scope.
Opaque local_steps_max.

Section Acts.
Variable p : program.
Notation agree := (agree p).
Notation near := (near p).
Notation moved := (moved p).
Notation frame := (frame p).
Notation reads := (reads p).
Notation acting := (acting p).

(** ** Going on *)

(** Where agents of a list get, each by one step of control flow. *)
Fixpoint go_list (l : list nat) (ps : list position) : outcome (list position) :=
  match l with
  | [] => Done ps
  | o :: l => let* g := agent_of p o in let* q := got (nth_error ps o) in let* q' := goes p g q in go_list l (set_nth o q' ps)
  end.

Lemma go_list_alike (S : nat -> Prop) l : (forall o, In o l -> S o) -> forall ps qs, length ps = length qs ->
  (forall i, S i -> nth_error ps i = nth_error qs i) ->
  match go_list l ps, go_list l qs with
  | Done r, Done u => length r = length ps /\ length u = length qs /\ (forall i, S i -> nth_error r i = nth_error u i) /\
      (forall i, ~ In i l -> nth_error r i = nth_error ps i /\ nth_error u i = nth_error qs i)
  | Faulty k l, Faulty k' l' => k = k' /\ l = l'
  | Undefined, Undefined => True
  | _, _ => False
  end.
Proof.
  induction l as [|o l IH]; intros H ps qs L E; cbn [go_list]; [now repeat split; auto|].
  destruct (agent_of p o) as [g| |]; cbn [bind]; [|easy..]. rewrite <- (E o (H o (or_introl eq_refl))).
  destruct (nth_error ps o) as [q|] eqn:Q; cbn [got bind]; [|easy]. destruct (goes p g q) as [q'| |]; cbn [bind]; [|easy..].
  specialize (IH (fun x X => H x (or_intror X)) (set_nth o q' ps) (set_nth o q' qs)). rewrite !set_nth_length in IH. specialize (IH L).
  assert (E' : forall i, S i -> nth_error (set_nth o q' ps) i = nth_error (set_nth o q' qs) i).
  { intros i I. destruct (Nat.eq_dec o i) as [<-|N]; [|rewrite !nth_set_other by easy; now apply E].
    pose proof (E o I) as X. rewrite Q in X. rewrite !nth_set_same; [easy|now rewrite <- X|now rewrite Q]. }
  specialize (IH E'). destruct (go_list l (set_nth o q' ps)) as [r| |], (go_list l (set_nth o q' qs)) as [u| |]; try easy.
  destruct IH as (L1 & L2 & A & B). repeat split; try easy; destruct (B i) as [B1 B2]; try (intros J; apply H0; now right);
    rewrite ?B1, ?B2; apply nth_set_other; intros <-; apply H0; now left.
Qed.

Lemma advance_list t l : fold (fun s o => advance p s o) t l = bind (go_list l (st_positions t)) (fun ps => Done (with_positions ps t)).
Proof.
  revert t. induction l as [|o l IH]; intros t; cbn [fold go_list]; [now destruct t|]. rewrite advance_goes.
  destruct (agent_of p o) as [g| |]; cbn [bind]; [|easy..]. destruct (nth_error (st_positions t) o) as [q|]; cbn [got bind]; [|easy].
  destruct (goes p g q) as [q'| |]; cbn [bind]; [|easy..]. rewrite IH. cbn [with_positions st_positions]. now destruct (go_list l _).
Qed.

(** The CTAs that end with it. *)
Definition stops (s : state) (l : list nat) : list loc :=
  match go_list l (st_positions s) with
  | Done ps => flat_map (fun g => if Bool.eqb (ended p (with_positions ps s) (ag_cta g)) (ended p s (ag_cta g)) then [] else [AtEnded (ag_cta g)])
                 (pr_agents p)
  | _ => []
  end.

Lemma no_cta t c : (forall g, In g (pr_agents p) -> ag_cta g <> c) -> ended p t c = false.
Proof.
  intros H. unfold ended. apply andb_false_iff. left. revert H. generalize (pr_agents p). intros gs. generalize (st_positions t). intros qs. revert gs.
  induction qs as [|q qs IH]; intros [|g gs] H; cbn; try easy. rewrite IH by (intros h I; apply H; now right).
  pose proof (H g (or_introl eq_refl)) as N. apply Z.eqb_neq in N. now rewrite N.
Qed.

Lemma acting_go R W s l : incl (map AtPlace l) R -> incl (map AtPlace l) W -> incl (stops s l) W ->
  acting [] R (filter own R) W s (fun t => fold (fun s o => advance p s o) t l).
Proof.
  intros I J E t [Sh N] _. rewrite !advance_list.
  pose proof (go_list_alike (fun i => In (AtPlace i) R) l (fun o O => I _ (in_map AtPlace l o O)) (st_positions s) (st_positions t)
    ltac:(apply Sh) (fun i X => N _ X)) as H.
  unfold stops in E. destruct (go_list l (st_positions s)) as [ps| |], (go_list l (st_positions t)) as [qs| |]; cbn [bind]; try easy.
  destruct H as (L1 & L2 & A & B).
  assert (NW : forall i, ~ In (AtPlace i) W -> ~ In i l) by (intros i X Y; apply X, J; now apply in_map).
  split; [|split; [|split]].
  - split; [repeat split; try easy; cbn; now symmetry|]. intros x X. destruct x; try easy; cbn.
    + symmetry. apply (B a). now apply NW.
    + destruct (Bool.bool_dec (ended p (with_positions ps s) cta) (ended p s cta)) as [Y|Y]; [now symmetry|]. exfalso. apply X, E.
      destruct (find (fun a b => Z.eqb a b) cta (map (fun g => (ag_cta g, g)) (pr_agents p))) as [g|] eqn:F.
      * assert (G : In g (pr_agents p) /\ ag_cta g = cta).
        { clear - F. induction (pr_agents p) as [|h m IH]; [easy|]. cbn in F. destruct (Z.eqb_spec cta (ag_cta h)) as [->|].
          - injection F as ->. split; [now left|easy].
          - destruct (IH F). split; [now right|easy]. }
        destruct G as [G <-]. apply in_flat_map. exists g. split; [easy|]. destruct (Bool.eqb _ _) eqn:Q; [|now left]. apply eqb_prop in Q. congruence.
      * exfalso. apply Y. rewrite !no_cta; [easy| |]; intros g G C; clear - F G C; induction (pr_agents p) as [|h m IH]; try easy; cbn in F;
          (destruct (Z.eqb_spec cta (ag_cta h)); [easy|]; destruct G as [->|G]; [congruence|now apply IH]).
  - split; [repeat split; try easy; cbn; now symmetry|]. intros x O X. destruct x; try easy; cbn. symmetry. apply (B a). now apply NW.
  - split.
    + destruct Sh as (S1 & S2). split; [cbn; congruence|exact S2].
    + intros x X. apply filter_In in X as [X O]. pose proof (N x X) as Y. destruct x; try easy. cbn. now apply A.
  - easy.
Qed.

Lemma go_one s a : fold (fun s o => advance p s o) s [a] = advance p s a.
Proof. cbn. now destruct (advance p s a). Qed.

Lemma stops_same s t l : st_positions s = st_positions t -> stops s l = stops t l.
Proof. intros E. unfold stops, ended. now rewrite E. Qed.

Lemma stops_ended s l x : In x (stops s l) -> exists c, x = AtEnded c.
Proof.
  unfold stops. destruct (go_list l (st_positions s)); try easy. intros I. apply in_flat_map in I as (g & _ & I).
  destruct (Bool.eqb _ _); [easy|]. destruct I as [<-|[]]. eauto.
Qed.

(** ** mbarriers *)

Definition stored (a : nat) (k : key) (b : mbarrier) : outcome mbarrier :=
  let* _ := guard (transaction_max <? Z.abs (mb_transaction b)) TransactionMismatch [a] in
  let over := mb_pending b =? 0 in
  let* _ := guard (over && (mb_transaction b <? 0)) TransactionMismatch [a] in
  Done (if over && (mb_transaction b =? 0)
     then Mbarrier (mb_status b) (mb_owner b) (mb_expected b) (mb_expected b) 0 (mb_phase b + 1) []
            (po_run_ahead (pr_policies p)
             && match peer_commit p (fst k) with Some _ => false | None => true end) (mb_tokens b)
     else b).

Definition counted_down (a : nat) (k : key) (b : mbarrier) (count bytes : Z) : outcome mbarrier :=
  let* _ := guard (negb ((0 <=? count) && (count <=? mb_pending b) && (0 <=? mb_expected b))) OverArrival [a] in
  let* _ := guard (negb (count =? 0) && negb (mb_observed b) && negb (po_run_ahead (pr_policies p))) UnobservedPhase [a] in
  stored a k (Mbarrier (mb_status b) (mb_owner b) (mb_expected b) (mb_pending b - count)
    (mb_transaction b + bytes) (mb_phase b) (mb_tokens b) (mb_observed b) (mb_armed b)).

Definition dead (s : state) (cta : Z) : bool := negb (po_exit_allowed (pr_policies p)) && ended p s cta.

Definition usable_if (dead : bool) (a : nat) (k : key) (by_engine : bool) (b : mbarrier) : outcome mbarrier :=
  let far := negb (barrier_cta p k =? cta_of p a) || by_engine in
  let* _ := guard (is_absent (mb_status b)) BarrierUninitialised [a] in
  let* _ := guard (far && is_unpublished (mb_status b)) UnpublishedInit [a] in
  let* _ := if far then guard dead LeakAtExit [a] else Done tt in
  Done b.

Definition put_back (s : state) (k : key) (x : outcome mbarrier) : outcome state := bind x (fun b => Done (put_barrier s k b)).

Lemma put_back_bind s k {X} (x : outcome X) f : put_back s k (bind x f) = bind x (fun v => put_back s k (f v)).
Proof. now destruct x. Qed.

Lemma store_stored s a k b : store p s a k b = put_back s k (stored a k b).
Proof.
  unfold store, stored. destruct (guard (transaction_max <? _) TransactionMismatch [a]); [|easy..]. cbn [bind]. cbv zeta.
  now destruct (guard _ TransactionMismatch [a]).
Qed.

Lemma count_down_stored s a k b n m : count_down p s a k b n m = put_back s k (counted_down a k b n m).
Proof.
  unfold count_down, counted_down. cbv zeta. destruct (guard _ OverArrival [a]); [|easy..]. cbn [bind].
  destruct (guard _ UnobservedPhase [a]); [|easy..]. cbn [bind]. apply store_stored.
Qed.

Lemma usable_found s a k e b : find same_key k (st_barriers s) = Some b ->
  usable p s a k e = usable_if (dead s (barrier_cta p k)) a k e b.
Proof. intros F. unfold usable. rewrite F. reflexivity. Qed.

(** A CTA that is seen to have ended or not; where all may end, nobody looks. *)
Definition far_end (a : nat) (k : key) (e : bool) : list loc :=
  if (negb (barrier_cta p k =? cta_of p a) || e) && negb (po_exit_allowed (pr_policies p)) then [AtEnded (barrier_cta p k)] else [].

Lemma usable_near R s t a k e b : near R s t -> incl (far_end a k e) R ->
  usable_if (dead t (barrier_cta p k)) a k e b = usable_if (dead s (barrier_cta p k)) a k e b.
Proof.
  intros [_ N] I. unfold usable_if, dead, far_end in *. destruct (negb (barrier_cta p k =? cta_of p a) || e); [|easy].
  destruct (po_exit_allowed (pr_policies p)); [easy|]. cbn [andb negb] in *.
  now rewrite (N _ (I _ (or_introl eq_refl)) : ended p s (barrier_cta p k) = _).
Qed.

Definition on_barrier (f : mbarrier -> outcome mbarrier) : action := fun v =>
  match v with PBarrier (Some b) => Some (bind (f b) (fun b => Done (PBarrier (Some b)))) | _ => None end.

Lemma acting_barrier R F W s k phi f : incl F R -> ~ In (AtBarrier k) R -> In (AtBarrier k) W ->
  (forall t b, near R s t -> find same_key k (st_barriers t) = Some b -> f t = put_back t k (phi b)) ->
  acting [(AtBarrier k, on_barrier phi)] R F W s f.
Proof.
  intros I O J H t N M. specialize (M (AtBarrier k) _ (or_introl eq_refl)). cbn [part_at on_barrier] in M.
  destruct (find same_key k (st_barriers s)) as [b|] eqn:B; [|easy]. destruct (find same_key k (st_barriers t)) as [c|] eqn:C; [|cbn in M; now destruct (phi b)].
  rewrite (H s b (near_refl p R s) B), (H t c N C). unfold on_barrier in M. destruct (phi b) as [b'| |] eqn:B', (phi c) as [c'| |] eqn:C'; cbn in M; try easy.
  cbn [put_back bind].
  assert (P : forall u x y, find same_key k (st_barriers u) = Some x -> moved W u (put_barrier u k y)).
  { intros u x y E. apply put_barrier_moved; [easy|congruence]. }
  split; [now apply P with b|]. split; [now apply moved_is_own, P with c|]. split.
  - split.
    + apply shape_trans with s; [apply shape_sym, (P s b b' B)|]. apply shape_trans with t; [apply N|]. apply (P t c c' C).
    + intros l L. pose proof (proj2 N l (I l L)) as E. destruct l; try exact E. cbn in E |- *.
      rewrite !find_put_other; try easy; intros <-; now apply O, I.
  - intros l r [[= <- <-]|[]]. cbn. rewrite B, C, !find_put_same. cbn. now rewrite B', C'.
Qed.

Section Operations.
Variables (R F W : list loc) (s : state) (a : nat) (env : nat -> Z) (r : reference) (k : key).
Hypothesis K : key_of env r = Done k.
Hypothesis IF : incl F R.
Hypothesis KR : ~ In (AtBarrier k) R.
Hypothesis KW : In (AtBarrier k) W.
Hypothesis FR : incl (far_end a k false) R.

Definition usable_at (b : mbarrier) : outcome mbarrier := usable_if (dead s (barrier_cta p k)) a k false b.

Lemma declared_found t b : find same_key k (st_barriers t) = Some b -> declared t a env r = Done k.
Proof. intros B. unfold declared. rewrite K. cbn [bind]. now rewrite B. Qed.

Lemma usable_there t b : near R s t -> find same_key k (st_barriers t) = Some b -> usable p t a k false = usable_at b.
Proof. intros N B. rewrite (usable_found t a k false b B). now apply usable_near with R. Qed.

Definition arrive_act (count bytes : expression) (drop token : bool) (b : mbarrier) : outcome mbarrier :=
  let* b := usable_at b in
  let* n := value env count in
  let own l := if token then add (Z.of_nat a) l else l in
  let* t := value env bytes in
  counted_down a k
    (Mbarrier (mb_status b) (mb_owner b) (if drop then mb_expected b - n else mb_expected b)
       (mb_pending b) (mb_transaction b) (mb_phase b) (own (mb_tokens b)) (mb_observed b)
       (own (mb_armed b))) n t.
Definition expect_act (bytes : expression) (b : mbarrier) : outcome mbarrier :=
  let* b := usable_at b in
  let* _ := guard (mb_pending b =? 0) TransactionMismatch [a] in
  let* n := value env bytes in
  stored a k (Mbarrier (mb_status b) (mb_owner b) (mb_expected b) (mb_pending b)
    (mb_transaction b + n) (mb_phase b) (mb_tokens b) (mb_observed b) (mb_armed b)).
Definition wait_act (phase : option expression) (b : mbarrier) : outcome mbarrier :=
  let* b := usable_at b in
  let* meant := optional env phase in
  let* _ := guard (match meant with Some m => negb (mb_phase b =? m + 1) | None => false end) LappedWait [a] in
  Done (with_observed b).
Definition token_act (b : mbarrier) : outcome mbarrier :=
  let* b := usable_at b in
  let* _ := guard (negb (inside (Z.of_nat a) (mb_armed b))) NamedBarrierMisuse [a] in
  Done (with_observed b).

Lemma acting_arrive count bytes drop token :
  acting [(AtBarrier k, on_barrier (arrive_act count bytes drop token))] R F W s (fun t => arrive p t a env r count bytes drop token).
Proof.
  apply acting_barrier; try easy. intros t b N B. unfold arrive, arrive_act. rewrite (declared_found t b B). cbn [bind].
  rewrite (usable_there t b N B), put_back_bind. destruct (usable_at b) as [c| |]; [|easy..]. cbn [bind]. rewrite put_back_bind.
  destruct (value env count) as [n| |]; [|easy..]. cbn [bind]. rewrite put_back_bind. destruct (value env bytes) as [m| |]; [|easy..]. cbn [bind].
  apply count_down_stored.
Qed.
Lemma acting_expect bytes : acting [(AtBarrier k, on_barrier (expect_act bytes))] R F W s (fun t => expect p t a env r bytes).
Proof.
  apply acting_barrier; try easy. intros t b N B. unfold expect, expect_act. rewrite (declared_found t b B). cbn [bind].
  rewrite (usable_there t b N B), put_back_bind. destruct (usable_at b) as [c| |]; [|easy..]. cbn [bind]. rewrite put_back_bind.
  destruct (guard (mb_pending c =? 0) TransactionMismatch [a]) as [u| |]; [|easy..]. cbn [bind]. rewrite put_back_bind.
  destruct (value env bytes) as [m| |]; [|easy..]. cbn [bind]. apply store_stored.
Qed.
Lemma acting_wait phase : acting [(AtBarrier k, on_barrier (wait_act phase))] R F W s (fun t => wait p t a env r phase).
Proof.
  apply acting_barrier; try easy. intros t b N B. unfold wait, wait_act. rewrite (declared_found t b B). cbn [bind].
  rewrite (usable_there t b N B), put_back_bind. destruct (usable_at b) as [c| |]; [|easy..]. cbn [bind]. rewrite put_back_bind.
  destruct (optional env phase) as [m| |]; [|easy..]. cbn [bind]. rewrite put_back_bind. now destruct (guard _ LappedWait [a]).
Qed.
Lemma acting_token : acting [(AtBarrier k, on_barrier token_act)] R F W s (fun t => token_wait p t a env r).
Proof.
  apply acting_barrier; try easy. intros t b N B. unfold token_wait, token_act. rewrite (declared_found t b B). cbn [bind].
  rewrite (usable_there t b N B), put_back_bind. destruct (usable_at b) as [c| |]; [|easy..]. cbn [bind]. rewrite put_back_bind.
  now destruct (guard _ NamedBarrierMisuse [a]).
Qed.
End Operations.

(** What the end of an operation does to its barriers, each of which is named once. *)
Section Completes.
Variables (s : state) (f : flight).

Definition complete_act (k : key) (amount : Z) (b : mbarrier) : outcome mbarrier :=
  let* b := usable_if (dead s (barrier_cta p k)) (fl_agent f) k true b in
  if fl_marker f then counted_down (fl_agent f) k b amount 0
  else
    let share := amount / fl_total f in
    let part := if fl_chunks f =? 1 then amount - share * (fl_total f - 1) else share in
    stored (fl_agent f) k (Mbarrier (mb_status b) (mb_owner b) (mb_expected b) (mb_pending b)
      (mb_transaction b - part) (mb_phase b) (mb_tokens b) (mb_observed b) (mb_armed b)).

Definition complete_acts (l : list (key * Z)) : acts := map (fun c => (AtBarrier (fst c), on_barrier (complete_act (fst c) (snd c)))) l.

Fixpoint once (l : list key) : bool :=
  match l with [] => true | k :: l => negb (existsb (same_key k) l) && once l end.

Definition completes (t : state) (c : key * Z) : outcome state :=
  let (k, amount) := c in
  let* b := usable p t (fl_agent f) k true in
  if fl_marker f then count_down p t (fl_agent f) k b amount 0
  else
    let share := amount / fl_total f in
    let part := if fl_chunks f =? 1 then amount - share * (fl_total f - 1) else share in
    store p t (fl_agent f) k (Mbarrier (mb_status b) (mb_owner b) (mb_expected b) (mb_pending b)
      (mb_transaction b - part) (mb_phase b) (mb_tokens b) (mb_observed b) (mb_armed b)).

Definition ends_alike (t : state) : Prop := forall cta, ended p t cta = ended p s cta.

Lemma acting_complete R F W t c : ends_alike t -> incl F R -> ~ In (AtBarrier (fst c)) R -> In (AtBarrier (fst c)) W ->
  incl (far_end (fl_agent f) (fst c) true) R ->
  acting [(AtBarrier (fst c), on_barrier (complete_act (fst c) (snd c)))] R F W t (fun u => completes u c).
Proof.
  intros N I O J E. apply acting_barrier; try easy. intros u b N' B. destruct c as [k amount]. cbn [fst snd] in *.
  unfold completes, complete_act. rewrite (usable_found u _ k true b B), put_back_bind.
  rewrite (usable_near R t u _ k true b N' E). unfold dead. rewrite N.
  destruct (usable_if _ _ _ _ b) as [c| |]; [|easy..]. cbn [bind]. destruct (fl_marker f); [apply count_down_stored|apply store_stored].
Qed.

Lemma acting_completes R F l : incl F R -> forall t, ends_alike t -> once (map fst l) = true ->
  (forall c, In c l -> ~ In (AtBarrier (fst c)) R /\ incl (far_end (fl_agent f) (fst c) true) R) ->
  acting (complete_acts l) R F (map (fun c => AtBarrier (fst c)) l) t (fun u => fold completes u l).
Proof.
  intros IF. induction l as [|c l IH]; intros t N O H; cbn [fold map complete_acts].
  - apply acting_frame. now apply frame_done.
  - cbn in O. apply andb_true_iff in O as [O1 O2]. destruct (H c (or_introl eq_refl)) as [H1 H2].
    assert (D : ~ In (AtBarrier (fst c)) (map (fun c => AtBarrier (fst c)) l)).
    { intros I. apply in_map_iff in I as (d & [= E] & I). apply negb_true_iff in O1.
      assert (Y : existsb (same_key (fst c)) (map fst l) = true); [|congruence].
      apply existsb_exists. exists (fst d). split; [now apply in_map|]. rewrite E. apply same_key_refl. }
    assert (Z : forall l, complete_acts l = [] ++ complete_acts l) by easy.
    change (acting ([(AtBarrier (fst c), on_barrier (complete_act (fst c) (snd c)))] ++ complete_acts l) R F
      ([AtBarrier (fst c)] ++ map (fun c => AtBarrier (fst c)) l) t (fun u => bind (completes u c) (fun s' => fold completes s' l))).
    apply acting_bind with R.
    + apply acting_complete; try easy. now left.
    + intros u U _. apply IH; try easy.
      * destruct (completes t c) as [v| |] eqn:V; try easy. injection U as ->.
        assert (Q : exists b, find same_key (fst c) (st_barriers t) = Some b /\ exists b', u = put_barrier t (fst c) b').
        { destruct c as [k amount]. unfold completes in V. destruct (find same_key k (st_barriers t)) as [b|] eqn:B.
          - exists b. split; [easy|]. rewrite (usable_found t _ k true b B) in V. destruct (usable_if _ _ _ _ b) as [b1| |]; [|easy..]. cbn [bind] in V.
            destruct (fl_marker f); rewrite ?count_down_stored, ?store_stored in V;
              match type of V with put_back _ _ ?x = _ => destruct x as [b2| |]; [|easy..] end; injection V as <-; now exists b2.
          - unfold usable in V. now rewrite B in V. }
        destruct Q as (b & B & b' & ->). intros cta. now rewrite <- N.
      * intros d I. apply H. now right.
    + intros x r [[= <- <-]|[]]. easy.
    + intros x r I. apply in_map_iff in I as (d & [= <- <-] & _). easy.
    + intros x [<-|[]]. easy.
    + intros x I [<-|[]]. apply in_map_iff in I as ([y q] & E & I). apply in_map_iff in I as (d & [= <- <-] & I). cbn in E.
      apply D. rewrite <- E. apply in_map_iff. now exists d.
Qed.
End Completes.

(** ** Pools *)

Definition on_number (f : Z -> Z) : action := fun v => match v with PNumber (Some x) => Some (Done (PNumber (Some (f x)))) | _ => None end.

Lemma acting_pool R F W s n phi f : incl F R -> ~ In (AtPool n) R -> In (AtPool n) W ->
  (forall t v, near R s t -> nth_error (st_pools t) n = Some v -> f t = Done (with_pools (set_nth n (phi v) (st_pools t)) t)) ->
  acting [(AtPool n, on_number phi)] R F W s f.
Proof.
  intros I O J H t N M. specialize (M (AtPool n) _ (or_introl eq_refl)). cbn [part_at] in M.
  destruct (nth_error (st_pools s) n) as [b|] eqn:B; [|easy]. destruct (nth_error (st_pools t) n) as [c|] eqn:C; [|easy]. clear M.
  rewrite (H s b (near_refl p R s) B), (H t c N C).
  assert (P : forall u x y, nth_error (st_pools u) n = Some x -> moved W u (with_pools (set_nth n y (st_pools u)) u)).
  { intros u x y E. apply put_pool_moved; [easy|congruence]. }
  split; [now apply P with b|]. split; [now apply moved_is_own, P with c|]. split.
  - split.
    + apply shape_trans with s; [apply shape_sym, (P s b (phi b) B)|]. apply shape_trans with t; [apply N|]. apply (P t c (phi c) C).
    + intros l L. pose proof (proj2 N l (I l L)) as E. destruct l; try exact E. cbn in E |- *.
      rewrite !nth_set_other; try easy; intros <-; now apply O, I.
  - intros l r [[= <- <-]|[]]. cbn. rewrite B, C, !nth_set_same by congruence. easy.
Qed.

(** ** Queues *)

Definition touch_dec (x y : list (flight * flight_access)) : {x = y} + {x <> y}.
Proof. repeat decide equality. Defined.

Definition cells_in (g : groups) : list cell := flat_map (fun f => map fa_cell (fl_accesses f)) (contents g).

(** The locations that change with the content of a queue: besides the queue what is in flight at cells, and where an
    operation is found. *)
Definition queue_moves (k : nat * nat) (g g' : groups) : list loc :=
  AtQueue k
  :: flat_map (fun c => if touch_dec (flat_map (touches c) (contents g)) (flat_map (touches c) (contents g')) then [] else [AtTouch c])
       (cells_in g ++ cells_in g')
  ++ flat_map (fun c => if touch_dec (flat_map (writes_of c) (contents g)) (flat_map (writes_of c) (contents g')) then [] else [AtWrites c])
       (cells_in g ++ cells_in g')
  ++ flat_map (fun f => if Bool.bool_dec (existsb (is_mark (fl_agent f) (fl_ordinal f)) (contents g))
                              (existsb (is_mark (fl_agent f) (fl_ordinal f)) (contents g')) then []
                        else [AtWhere (fl_agent f) (fl_ordinal f)]) (contents g ++ contents g').

Lemma untouched c g : ~ In c (cells_in g) -> flat_map (touches c) (contents g) = [] /\ flat_map (writes_of c) (contents g) = [].
Proof.
  intros N. unfold cells_in in N. induction (contents g) as [|f l IH]; [easy|]. cbn in *. destruct IH as [-> ->]; [intros I; apply N, in_or_app; now right|].
  rewrite !app_nil_r. assert (E : forall P, filter (fun w => same_key (fa_cell w) c && P w) (fl_accesses f) = []).
  { intros P. destruct (filter _ (fl_accesses f)) as [|w m] eqn:E; [easy|]. exfalso. apply N, in_or_app. left.
    assert (J : In w (filter (fun w => same_key (fa_cell w) c && P w) (fl_accesses f))) by (rewrite E; now left).
    apply filter_In in J as [J K]. apply andb_true_iff in K as [K _]. apply same_key_eq in K. subst c. now apply in_map. }
  unfold touches, writes_of. now rewrite !E.
Qed.

Lemma moves_touch k g g' c : flat_map (touches c) (contents g') = flat_map (touches c) (contents g) \/ In (AtTouch c) (queue_moves k g g').
Proof.
  destruct (touch_dec (flat_map (touches c) (contents g)) (flat_map (touches c) (contents g'))) as [E|N]; [now left|right].
  right. apply in_or_app. left. apply in_flat_map. exists c. split.
  - destruct (in_dec key_cases c (cells_in g ++ cells_in g')) as [I|I]; [easy|]. exfalso. apply N.
    destruct (untouched c g) as [-> _]; [intros J; apply I, in_or_app; now left|].
    now destruct (untouched c g') as [-> _]; [intros J; apply I, in_or_app; now right|].
  - destruct (touch_dec _ _); [easy|now left].
Qed.
Lemma moves_writes k g g' c : flat_map (writes_of c) (contents g') = flat_map (writes_of c) (contents g) \/ In (AtWrites c) (queue_moves k g g').
Proof.
  destruct (touch_dec (flat_map (writes_of c) (contents g)) (flat_map (writes_of c) (contents g'))) as [E|N]; [now left|right].
  right. apply in_or_app. right. apply in_or_app. left. apply in_flat_map. exists c. split.
  - destruct (in_dec key_cases c (cells_in g ++ cells_in g')) as [I|I]; [easy|]. exfalso. apply N.
    destruct (untouched c g) as [_ ->]; [intros J; apply I, in_or_app; now left|].
    now destruct (untouched c g') as [_ ->]; [intros J; apply I, in_or_app; now right|].
  - destruct (touch_dec _ _); [easy|now left].
Qed.

Lemma marks_same a n f l : is_mark a n f = true -> existsb (is_mark (fl_agent f) (fl_ordinal f)) l = existsb (is_mark a n) l.
Proof. unfold is_mark. rewrite andb_true_iff, Nat.eqb_eq, Z.eqb_eq. now intros [<- <-]. Qed.

Lemma moves_where k g g' a n : existsb (is_mark a n) (contents g') = existsb (is_mark a n) (contents g) \/ In (AtWhere a n) (queue_moves k g g').
Proof.
  destruct (Bool.bool_dec (existsb (is_mark a n) (contents g)) (existsb (is_mark a n) (contents g'))) as [E|N]; [now left|right].
  assert (X : exists f, In f (contents g ++ contents g') /\ is_mark a n f = true).
  { destruct (existsb (is_mark a n) (contents g)) eqn:E.
    - apply existsb_exists in E as (f & I & M). exists f. split; [apply in_or_app; now left|easy].
    - destruct (existsb (is_mark a n) (contents g')) eqn:E'; [|easy].
      apply existsb_exists in E' as (f & I & M). exists f. split; [apply in_or_app; now right|easy]. }
  destruct X as (f & I & M). right. apply in_or_app. right. apply in_or_app. right. apply in_flat_map. exists f. split; [easy|].
  rewrite !(marks_same a n f _ M). destruct (Bool.bool_dec _ _); [easy|]. left.
  unfold is_mark in M. rewrite andb_true_iff, Nat.eqb_eq, Z.eqb_eq in M. destruct M as [<- <-]. easy.
Qed.

Definition in_list (l : loc) (m : list loc) : bool := if in_dec loc_dec l m then true else false.

Definition on_queue (f : groups -> option groups) : action := fun v =>
  match v with
  | PQueue (Some g) => match f g with Some g' => Some (Done (PQueue (Some g'))) | None => None end
  | _ => None
  end.

Definition moves_in (W : list loc) (s : state) (k : nat * nat) (f : groups -> option groups) : Prop :=
  forall g g', find same_pair k (st_queues s) = Some g -> f g = Some g' -> incl (queue_moves k g g') W.

Lemma acting_queue R F W s k phi f : incl F R -> ~ In (AtQueue k) R -> (forall l, In l F -> own l = true) ->
  In (AtQueue k) W -> moves_in W s k phi ->
  (forall t g g', near R s t -> find same_pair k (st_queues t) = Some g -> phi g = Some g' ->
    f t = Done (with_queues (put same_pair k g' (st_queues t)) t)) ->
  acting [(AtQueue k, on_queue phi)] R F W s f.
Proof.
  intros I O OF J V H t N M. specialize (M (AtQueue k) _ (or_introl eq_refl)). cbn [part_at on_queue] in M.
  destruct (find same_pair k (st_queues s)) as [b|] eqn:B; [|easy]. destruct (find same_pair k (st_queues t)) as [c|] eqn:C.
  2: { match type of M with matched ?x _ => now destruct x as [[]|] end. }
  destruct (phi b) as [b'|] eqn:B'; [|easy]. destruct (phi c) as [c'|] eqn:C'; [|easy]. clear M.
  rewrite (H s b b' (near_refl p R s) B B'), (H t c c' N C C').
  assert (P : moved W s (with_queues (put same_pair k b' (st_queues s)) s)).
  { pose proof (V b b' B B') as V'. apply (put_queue_moved p W k b b'); try easy.
    - intros z. destruct (moves_touch k b b' z); [now left|right; now apply V'].
    - intros z. destruct (moves_writes k b b' z); [now left|right; now apply V'].
    - intros z n. destruct (moves_where k b b' z n); [now left|right; now apply V']. }
  assert (Q : forall u x y, find same_pair k (st_queues u) = Some x -> moved_own p W u (with_queues (put same_pair k y (st_queues u)) u)).
  { intros u x y E. split; [repeat split; try easy; cbn; symmetry; apply pairs_put; congruence|].
    intros l L NL. destruct l; try easy. cbn. symmetry. apply pair_put_other. now intros <-. }
  split; [easy|]. split; [now apply Q with c|]. split.
  - split.
    + apply shape_trans with s; [apply shape_sym, P|]. apply shape_trans with t; [apply N|]. apply (Q t c c' C).
    + intros l L. pose proof (proj2 N l (I l L)) as E. pose proof (OF l L) as X. destruct l; try exact E; try discriminate X. cbn in E |- *.
      rewrite !pair_put_other; try easy; intros <-; now apply O, I.
  - intros l r [[= <- <-]|[]]. cbn [part_at with_queues st_queues]. rewrite B, C, !pair_put_same. cbn [on_queue]. now rewrite B', C'.
Qed.

Definition commit_act (g : groups) : option groups :=
  Some (if is_empty (gr_open g) && is_empty (gr_closed g) then g else Groups (gr_closed g ++ [gr_open g]) []).

Lemma put_again {V} k (g : V) l : find same_pair k l = Some g -> put same_pair k g l = l.
Proof.
  induction l as [|[h w] l IH]; cbn; [easy|]. destruct (same_pair k h) eqn:E.
  - apply same_pair_eq in E. subst. now intros [= ->].
  - intros F. now rewrite IH.
Qed.

Lemma acting_commit R F W s a q : In (AtQueue (a, q)) W -> moves_in W s (a, q) commit_act -> incl F R -> ~ In (AtQueue (a, q)) R -> (forall l, In l F -> own l = true) ->
  acting [(AtQueue (a, q), on_queue commit_act)] R F W s (fun t => commit t a q).
Proof.
  intros IW V I O OF. apply acting_queue; try easy. intros t g g' N G. unfold commit, commit_act. rewrite G. cbn [got bind]. intros [= <-].
  destruct (is_empty (gr_open g) && is_empty (gr_closed g)); [|easy]. rewrite put_again by easy. now destruct t.
Qed.

Definition append (d : queue) (f : flight) (g : groups) : option groups :=
  Some (if qu_grouped d then Groups (gr_closed g) (gr_open g ++ [f]) else Groups (gr_closed g ++ [[f]]) (gr_open g)).

Lemma acting_enqueue R F W s q d f n : In (AtQueue (fl_agent f, q)) W -> moves_in W s (fl_agent f, q) (append d f) -> incl F R -> ~ In (AtQueue (fl_agent f, q)) R -> (forall l, In l F -> own l = true) ->
  queue_decl p q = Done d -> nth_error (st_issued s) (fl_agent f) = Some n -> In (AtIssued (fl_agent f)) R ->
  acting [(AtQueue (fl_agent f, q), on_queue (append d f))] R F (AtIssued (fl_agent f) :: W) s (fun t => enqueue p t (Some q) f).
Proof.
  intros IW V I O OF D N IR.
  apply (acting_same p _ R F _ s (fun t => bind (got (nth_error (st_issued t) (fl_agent f))) (fun n =>
    bind (Done (with_issued (set_nth (fl_agent f) (n + 1) (st_issued t)) t))
      (fun u => bind (got (find same_pair (fl_agent f, q) (st_queues u))) (fun g => Done (with_queues (put same_pair (fl_agent f, q)
        (if qu_grouped d then Groups (gr_closed g) (gr_open g ++ [f]) else Groups (gr_closed g ++ [[f]]) (gr_open g)) (st_queues u)) u)))))).
  { intros t. unfold enqueue. now rewrite D. }
  apply (acting_read p _ R F _ s (fun t => got (nth_error (st_issued t) (fl_agent f)))).
  { intros t [_ H]. now rewrite <- (H _ IR : nth_error (st_issued s) (fl_agent f) = _). }
  rewrite N. intros n' [= <-].
  apply (acting_bind p [] _ R R F [AtIssued (fl_agent f)] W).
  - apply acting_frame. apply frame_issued; try easy; [now left|congruence].
  - intros u [= <-] _. apply acting_queue; try easy. intros t g g' _ G. rewrite G. cbn [got bind]. unfold append. now intros [= <-].
  - easy.
  - intros l r [[= <- <-]|[]]. easy.
  - easy.
  - intros l [<-|[]] [E|[]]. easy.
Qed.

(** ** Ends of what is in a queue *)

Definition finish_act (d : queue) (a : nat) (n : Z) (f : flight) (early : bool) (g : groups) : option groups :=
  match List.find (is_mark a n) (contents g) with
  | Some f' => if flight_dec f' f then Some (finished d a n (rest_of f early) g) else None
  | None => None
  end.

(** ** Issuing *)

Definition done_of (s : state) (a : nat) (env : nat -> Z) (completes : list (reference * expression)) : outcome (list (key * Z)) :=
  each (fun '(r, bytes) => let* k := declared s a env r in let* n := value env bytes in Done (k, n)) completes.

Lemma reads_done R s a env completes : reads R s (fun t => done_of t a env completes).
Proof.
  apply (reads_each p R s (fun x t => let '(r, bytes) := x in let* k := declared t a env r in let* n := value env bytes in Done (k, n))).
  intros [r bytes] _ t K. now rewrite (reads_declared p R s a env r t K).
Qed.

Lemma acting_issue A R F W s a env site effects q completes chunks l n done :
  parts_of p s a env effects = Done l -> nth_error (st_issued s) a = Some n -> done_of s a env completes = Done done ->
  issue_plain p l = true -> incl (alive_list p a effects) R -> incl (issue_seen l) R -> In (AtIssued a) R ->
  acting A R F W s (fun t => enqueue p t q (Flight a n site (concat l) done true chunks chunks false q)) ->
  acting A R F W s (fun t => issue p t a env site effects q completes chunks).
Proof.
  intros E N DE P L S I Q. unfold issue.
  apply (acting_read p A R F W s (fun t => parts_of p t a env effects)); [now apply reads_parts|]. rewrite E. intros l' [= <-].
  apply (acting_read p A R F W s (fun t => each (fun '(e, w) =>
    let* _ := check_cached p t a (ef_buffer e) (fa_cell w) (fa_proxy w) (fa_write w) in
    let* _ := check_proxy p t a (fa_cell w) (fa_proxy w) (fa_write w) in
    if fa_write w then
      let* _ := check_write p t a (fa_cell w) q (fa_extent w) (fa_kind w) in
      check_sum t a (fa_cell w) (fa_tile w) (fa_kind w)
    else check_read p t a (fa_cell w) (fa_tile w) q)
    (flat_map (fun '(e, l) => map (pair e) l) (combine effects l)))).
  - apply (reads_each p R s (fun x t => let '(e, w) := x in _)). intros [e w] M t K.
    assert (C : In w (concat l)).
    { apply in_flat_map in M as ([e' m] & M & M'). apply in_map_iff in M' as (w' & [= -> ->] & M').
      apply in_concat. exists m. split; [|easy]. now apply in_combine_r in M. }
    assert (Y : plain p (fa_cell w) = true) by (unfold issue_plain in P; rewrite forallb_forall in P; now apply P).
    assert (X : incl (AtContent (fa_cell w) :: (if fa_write w then AtTouch (fa_cell w) else AtWrites (fa_cell w))
                     :: proxy_seen (fa_cell w) (fa_proxy w) (fa_write w)) R).
    { intros x X. apply S, in_flat_map. now exists w. }
    assert (X1 : In (AtContent (fa_cell w)) R) by (apply X; now left).
    assert (X3 : incl (proxy_seen (fa_cell w) (fa_proxy w) (fa_write w)) R) by (intros x X'; apply X; do 2 right; easy).
    rewrite !check_cached_plain by easy. cbn [bind]. rewrite (reads_check_proxy p R s a _ (fa_proxy w) (fa_write w) X3 t K).
    specialize (X _ (or_intror (or_introl eq_refl))). destruct (fa_write w).
    + now rewrite (reads_check_write p R s a _ q (fa_extent w) (fa_kind w) X t K), (reads_check_sum p R s a _ (fa_tile w) (fa_kind w) X1 t K).
    + now rewrite (reads_check_read p R s a _ (fa_tile w) q X1 X t K).
  - intros _ _. apply (acting_read p A R F W s (fun t => done_of t a env completes)); [apply reads_done|].
    rewrite DE. intros d [= <-]. apply (acting_read p A R F W s (fun t => got (nth_error (st_issued t) a))).
    { intros t [_ H]. now rewrite <- (H _ I : nth_error (st_issued s) a = _). }
    rewrite N. now intros n' [= <-].
Qed.

(** Into no queue. *)
Lemma acting_free R W s f : In (AtIssued (fl_agent f)) R -> In (AtIssued (fl_agent f)) W ->
  In (AtFlight (fl_agent f) (fl_ordinal f)) W -> incl (touched_cells f) W ->
  frame R (filter own R) W s (fun t => enqueue p t None f).
Proof.
  intros I J K T. unfold enqueue.
  apply (frame_read p R _ W s (fun t => got (nth_error (st_issued t) (fl_agent f)))).
  { intros t [_ H]. now rewrite <- (H _ I : nth_error (st_issued s) (fl_agent f) = _). }
  intros n E. destruct (nth_error (st_issued s) (fl_agent f)) as [n'|] eqn:N; [|easy]. clear E.
  apply (frame_same p R _ W s (fun t => bind (Done (with_issued (set_nth (fl_agent f) (n + 1) (st_issued t)) t))
      (fun u => Done (with_free (st_free u ++ [f]) u)))); [easy|].
  apply (frame_bind p R R); [apply frame_issued; try easy; now rewrite N|]. intros u _. now apply frame_put_free.
Qed.

Lemma acting_queue_arrive R F W s a env site q r count d n k m : In (AtQueue (a, q)) W ->
  moves_in W s (a, q) (append d (Flight a n site [] [(k, m)] false 1 1 true (Some q))) -> incl F R -> ~ In (AtQueue (a, q)) R -> (forall l, In l F -> own l = true) ->
  queue_decl p q = Done d -> nth_error (st_issued s) a = Some n -> In (AtIssued a) R ->
  declared s a env r = Done k -> value env count = Done m ->
  acting [(AtQueue (a, q), on_queue (append d (Flight a n site [] [(k, m)] false 1 1 true (Some q))))] R F (AtIssued a :: W) s
    (fun t => queue_arrive p t a env site q r count).
Proof.
  intros IW V I O OF D N IR K M. unfold queue_arrive. apply (acting_read p _ R F _ s (fun t => declared t a env r)); [apply reads_declared|].
  rewrite K. intros k' [= <-]. rewrite M. cbn [bind].
  apply (acting_read p _ R F _ s (fun t => got (nth_error (st_issued t) a))).
  { intros t [_ H]. now rewrite <- (H _ IR : nth_error (st_issued s) a = _). }
  rewrite N. intros n' [= <-].
  apply (acting_enqueue R F W s q d (Flight a n site [] [(k, m)] false 1 1 true (Some q)) n); easy.
Qed.

(** ** Ends of operations in flight *)

Definition ends_acts (s : state) (f : flight) (early : bool) : acts := if early then [] else complete_acts s f (fl_completes f).
Definition ends_changed (f : flight) (early : bool) : list loc := if early then [] else map (fun c => AtBarrier (fst c)) (fl_completes f).
Definition ends_seen (f : flight) (early : bool) : list loc :=
  filter own (effect_changed f early) ++ (if early then [] else flat_map (fun c => far_end (fl_agent f) (fst c) true) (fl_completes f)).

Lemma effect_parts t f early : effect_of p t f early =
  bind (if early then have_read p t f else if fl_chunks f =? 1 then take_effect p t f else Done t)
    (fun u => if early then Done u else fold (completes f) u (fl_completes f)).
Proof.
  unfold effect_of. destruct early; [now destruct (have_read p t f)|]. cbv zeta.
  destruct (if fl_chunks f =? 1 then take_effect p t f else Done t) as [u| |]; cbn [bind]; try easy.
Qed.

Lemma acting_effect R s f early : flight_plain p f = true -> (forall k, ~ In (AtBarrier k) R) -> incl (ends_seen f early) R ->
  once (map fst (fl_completes f)) = true ->
  acting (ends_acts s f early) R R (effect_changed f early ++ ends_changed f early) s (fun t => effect_of p t f early).
Proof.
  intros P NB J O.
  apply (acting_same p _ R R _ s (fun t => bind (if early then have_read p t f else if fl_chunks f =? 1 then take_effect p t f else Done t)
    (fun u => if early then Done u else fold (completes f) u (fl_completes f)))); [intros t; symmetry; apply effect_parts|].
  apply (acting_bind p [] (ends_acts s f early) R R R).
  - apply acting_frame. destruct early; [now apply frame_have_read|]. destruct (fl_chunks f =? 1) eqn:C; [|now apply frame_done].
    now apply frame_take_effect.
  - intros u U _. unfold ends_acts, ends_changed. destruct early; [apply acting_frame; now apply frame_done|].
    apply acting_completes; try easy.
    + intros cta. destruct (fl_chunks f =? 1) eqn:C; [|now injection U as <-].
      pose proof (frame_take_effect p R (effect_changed f false) s f P C (incl_refl _) s (near_refl p _ s)) as X. cbn beta in X.
      rewrite U in X. destruct X as [[_ M] _]. symmetry. apply (M (AtEnded cta)). intros I. unfold effect_changed in I. rewrite C in I.
      apply in_flat_map in I as (w & _ & I). destruct (fa_write w), (is_generic (fa_proxy w)); cbn in I; intuition discriminate.
    + intros c I. split; [apply NB|]. intros l L. apply J. unfold ends_seen. apply in_or_app. right. apply in_flat_map. now exists c.
  - easy.
  - intros l r I. unfold ends_acts in I. destruct early; [easy|]. apply in_map_iff in I as (c & [= <- _] & _). easy.
  - easy.
  - intros l I. unfold ends_acts in I. destruct early; [easy|]. apply in_map_iff in I as ([h r] & E & I). apply in_map_iff in I as (c & [= <- _] & _).
    cbn in E. subst l. unfold effect_changed. destruct (fl_chunks f =? 1); [|easy]. intros X. apply in_flat_map in X as (w & _ & X).
    destruct (fa_write w), (is_generic (fa_proxy w)); cbn in X; intuition discriminate.
Qed.

Lemma acts_barriers s f early l r : In (l, r) (ends_acts s f early) -> exists k, l = AtBarrier k.
Proof. unfold ends_acts. destruct early; [easy|]. intros I. apply in_map_iff in I as (c & [= <- _] & _). now exists (fst c). Qed.

(** Of an operation without a queue. *)
Lemma acting_engine_free R W s a n f early : List.find (is_mark a n) (st_free s) = Some f -> flight_plain p f = true ->
  (forall k, ~ In (AtBarrier k) R) -> incl (ends_seen f early) R -> once (map fst (fl_completes f)) = true ->
  In (AtFlight a n) R -> In (AtFlight a n) W -> (forall k, ~ In (AtBarrier k) W) ->
  incl (flat_map touched_cells (filter (is_mark a n) (st_free s))) W ->
  acting (ends_acts s f early) R (filter own R) ((effect_changed f early ++ ends_changed f early) ++ W) s (fun t => engine_step p t a n early).
Proof.
  intros F P NB J O I K NW T.
  assert (H : acting (ends_acts s f early ++ []) R (filter own R) ((effect_changed f early ++ ends_changed f early) ++ W) s
    (fun t => bind (effect_of p t f early) (fun u => Done (with_free (replaced a n (rest_of f early) (st_free u)) u)))).
  { assert (M : is_mark a n f = true) by now apply find_some in F.
    apply (acting_bind p _ [] R R (filter own R)); [now apply acting_effect| | | | |easy].
    - intros u U _. apply acting_frame. destruct (quiet_effect p f early s u U) as [Q _]. apply frame_replace_free; try easy.
      + intros g G. split; [now rewrite (rest_mark f early a n g G)|]. intros l L. apply T, in_flat_map. exists f. split.
        * apply filter_In. split; [|easy]. now apply find_some in F.
        * now apply (rest_touches f early g G).
      + now rewrite Q.
    - intros l r X. now destruct (acts_barriers s f early l r X) as [k ->].
    - easy.
    - intros l X. apply in_map_iff in X as ([h r] & <- & X). destruct (acts_barriers s f early h r X) as [k ->]. apply NW. }
  rewrite app_nil_r in H. intros t N M. specialize (H t N M). pose proof (proj2 N _ I) as E. cbn in E.
  assert (F' : List.find (is_mark a n) (st_free t) = Some f) by now rewrite find_filter, <- E, <- find_filter.
  assert (Q : forall u, List.find (is_mark a n) (st_free u) = Some f -> engine_step p u a n early =
    bind (effect_of p u f early) (fun v => Done (with_free (replaced a n (rest_of f early) (st_free v)) v))).
  { intros u U. unfold engine_step. rewrite U, finish_effect. destruct (effect_of p u f early) as [v| |] eqn:Z; cbn [bind]; [|easy..].
    now destruct (quiet_effect p f early u v Z) as [-> _]. }
  now rewrite !Q.
Qed.

(** Of an operation in a queue. *)
Lemma acting_engine_queue R W s a n owner q d f early : distinct (map fst (st_queues s)) = true -> queue_decl p q = Done d ->
  List.find (is_mark a n) (st_free s) = None -> where_ a n s = Some (owner, q) -> flight_plain p f = true ->
  (forall k, ~ In (AtBarrier k) R) -> incl (ends_seen f early) R -> once (map fst (fl_completes f)) = true ->
  In (AtQueue (owner, q)) W -> moves_in W s (owner, q) (finish_act d a n f early) ->
  (forall k, ~ In (AtBarrier k) W) -> In (AtFlight a n) R -> In (AtWhere a n) R -> ~ In (AtQueue (owner, q)) R ->
  acting (ends_acts s f early ++ [(AtQueue (owner, q), on_queue (finish_act d a n f early))]) R (filter own R)
    ((effect_changed f early ++ ends_changed f early) ++ W) s (fun t => engine_step p t a n early).
Proof.
  intros D QD F0 Wh P NB J O IW MV NW I1 I2 NQ.
  assert (H : acting (ends_acts s f early ++ [(AtQueue (owner, q), on_queue (finish_act d a n f early))]) R (filter own R)
    ((effect_changed f early ++ ends_changed f early) ++ W) s (fun t => bind (effect_of p t f early) (fun u =>
      bind (got (find same_pair (owner, q) (st_queues u))) (fun g =>
      Done (with_queues (put same_pair (owner, q) (finished d a n (rest_of f early) g) (st_queues u)) u))))).
  { apply (acting_bind p _ _ R R (filter own R)); [now apply acting_effect| | | | |].
    - intros u U _. apply acting_queue; [apply own_less|easy|intros l L; now apply filter_In in L|easy| |].
      { destruct (quiet_effect p f early s u U) as [_ E]. unfold moves_in. now rewrite E. }
      intros t g g' _ G. rewrite G. cbn [got bind]. unfold finish_act. destruct (List.find (is_mark a n) (contents g)) as [f'|]; [|easy].
      destruct (flight_dec f' f); [|easy]. now intros [= <-].
    - intros l r X. now destruct (acts_barriers s f early l r X) as [k ->].
    - intros l r [[= <- _]|[]]. easy.
    - intros l X. apply in_map_iff in X as ([h r] & <- & X). destruct (acts_barriers s f early h r X) as [k ->]. apply NW.
    - intros l [<-|[]] X. unfold effect_changed, ends_changed in X. apply in_app_or in X as [X|X].
      + destruct early; [easy|]. destruct (fl_chunks f =? 1); [|easy]. apply in_flat_map in X as (w & _ & X).
        destruct (fa_write w), (is_generic (fa_proxy w)); cbn in X; intuition discriminate.
      + destruct early; [easy|]. apply in_map_iff in X as (c & X & _). discriminate. }
  intros t N M. specialize (H t N M). pose proof (proj2 N _ I1) as E1. pose proof (proj2 N _ I2) as E2. cbn in E1, E2.
  destruct N as [(_ & _ & _ & _ & _ & K & _) _].
  assert (MQ : matched (on_queue (finish_act d a n f early) (part_at (AtQueue (owner, q)) s))
    (on_queue (finish_act d a n f early) (part_at (AtQueue (owner, q)) t))) by (apply M, in_or_app; right; now left).
  assert (Z : forall u v, matched (on_queue (finish_act d a n f early) (part_at (AtQueue (owner, q)) u)) v ->
    exists g, find same_pair (owner, q) (st_queues u) = Some g /\ List.find (is_mark a n) (contents g) = Some f).
  { intros u v. cbn [part_at on_queue]. destruct (find same_pair (owner, q) (st_queues u)) as [g|]; [|easy]. unfold finish_act.
    destruct (List.find (is_mark a n) (contents g)) as [f'|] eqn:G; [|easy]. destruct (flight_dec f' f) as [->|]; [|easy]. intros _. now exists g. }
  assert (Y : forall x y : option (outcome part), matched x y -> matched y x).
  { intros [[]|] [[]|]; cbn; intuition congruence. }
  destruct (Z s _ MQ) as (g & G & G'). destruct (Z t _ (Y _ _ MQ)) as (h & B & B').
  assert (E : forall u g, distinct (map fst (st_queues u)) = true -> List.find (is_mark a n) (st_free u) = None -> where_ a n u = Some (owner, q) ->
    find same_pair (owner, q) (st_queues u) = Some g -> List.find (is_mark a n) (contents g) = Some f ->
    engine_step p u a n early = bind (effect_of p u f early) (fun u => bind (got (find same_pair (owner, q) (st_queues u))) (fun g =>
      Done (with_queues (put same_pair (owner, q) (finished d a n (rest_of f early) g) (st_queues u)) u)))).
  { intros u x U1 U2 U3 U4 U5. rewrite (engine_step_queue p u a n owner q d x f early) by easy.
    destruct (effect_of p u f early) as [v| |] eqn:V; cbn [bind]; [|easy..]. destruct (quiet_effect p f early u v V) as [_ ->]. now rewrite U4. }
  rewrite (E s g), (E t h); try easy.
  - congruence.
  - rewrite find_filter in *. congruence.
  - congruence.
Qed.

(** ** Named barriers *)

Definition on_named (f : named -> option (outcome named)) : action := fun v =>
  match v with
  | PNamed (Some n) => match f n with Some x => Some (bind x (fun n => Done (PNamed (Some n)))) | None => None end
  | _ => None
  end.

Lemma acting_named R F W s k phi f : incl F R -> ~ In (AtNamed k) R -> In (AtNamed k) W ->
  (forall t n x, near R s t -> find same_key k (st_named t) = Some n -> phi n = Some x ->
    f t = bind x (fun n => Done (with_named (put same_key k n (st_named t)) t))) ->
  acting [(AtNamed k, on_named phi)] R F W s f.
Proof.
  intros I O J H t N M. specialize (M (AtNamed k) _ (or_introl eq_refl)). cbn [part_at on_named] in M.
  destruct (find same_key k (st_named s)) as [b|] eqn:B; [|easy]. destruct (find same_key k (st_named t)) as [c|] eqn:C.
  2: { match type of M with matched ?x _ => now destruct x as [[]|] end. }
  destruct (phi b) as [x|] eqn:B'; [|easy]. destruct (phi c) as [y|] eqn:C'; [|cbn in M; now destruct x].
  rewrite (H s b x (near_refl p R s) B B'), (H t c y N C C'). destruct x as [b'| |], y as [c'| |]; cbn in M; try easy. cbn [bind].
  assert (P : forall u x y, find same_key k (st_named u) = Some x -> moved W u (with_named (put same_key k y (st_named u)) u)).
  { intros u x y E. apply put_named_moved; [easy|congruence]. }
  split; [now apply P with b|]. split; [now apply moved_is_own, P with c|]. split.
  - split.
    + apply shape_trans with s; [apply shape_sym, (P s b b' B)|]. apply shape_trans with t; [apply N|]. apply (P t c c' C).
    + intros l L. pose proof (proj2 N l (I l L)) as E. destruct l; try exact E. cbn in E |- *.
      rewrite !find_put_other; try easy; intros <-; now apply O, I.
  - intros l r [[= <- <-]|[]]. cbn [part_at with_named st_named on_named]. rewrite B, C, !find_put_same. cbn. now rewrite B', C'.
Qed.

Definition wait_named (a : nat) (n : named) : option (outcome named) := Some (
  let me := Z.of_nat a in
  let* _ := guard (negb (inside me (na_armed n))) NamedBarrierMisuse [a] in
  Done (Named (na_arrived_threads n) (na_expected_threads n) (na_arrived n) (na_waiting n) (without [me] (na_armed n)))).

Lemma acting_named_wait R F W s a env r k : key_of env r = Done k -> incl F R -> ~ In (AtNamed k) R -> In (AtNamed k) W ->
  acting [(AtNamed k, on_named (wait_named a))] R F W s (fun t => named_wait t a env r).
Proof.
  intros K I O J. apply acting_named; try easy. intros t n x _ N. unfold named_wait, declared_named, wait_named. rewrite K. cbn [bind]. rewrite N.
  intros [= <-]. cbn [bind]. now destruct (guard _ NamedBarrierMisuse [a]).
Qed.

(** The barrier behind an arrival of [a], and whether it is full. *)
Definition met (a : nat) (g : agent) (k : key) (all : Z) (sync : bool) (n : named) : outcome (named * bool) :=
  let me := Z.of_nat a in
  let* _ := guard (inside me (na_arrived n) || inside me (na_waiting n)) NamedBarrierMisuse [a] in
  let arrived := na_arrived_threads n + ag_threads g in
  let fits := ((na_expected_threads n =? 0) || (na_expected_threads n =? all)) && (arrived <=? all) in
  let* _ := guard (negb fits) NamedBarrierMisuse [a] in
  let rest := without [me] (na_armed n) in
  let armed := if negb sync && awaited p (fst k) then add me rest else rest in
  Done (if arrived <? all then
    (Named arrived all (if sync then na_arrived n else add me (na_arrived n)) (if sync then add me (na_waiting n) else na_waiting n) armed, false)
  else (Named 0 0 [] [] armed, true)).

(** Nobody goes on with it but the agent. *)
Definition meet_act (full : bool) (a : nat) (g : agent) (k : key) (all : Z) (sync : bool) (n : named) : option (outcome named) :=
  match met a g k all sync n with
  | Done (m, true) => if full && is_empty (na_waiting n) then Some (Done m) else None
  | Done (m, false) => if full then None else Some (Done m)
  | Faulty x l => Some (Faulty x l)
  | Undefined => Some Undefined
  end.

Definition meet_on (t : state) (a : nat) (env : nat -> Z) (r : reference) (threads : expression) (sync : bool) : outcome state :=
  bind (meet p t a env r threads sync) (fun x => if snd x then advance p (fst x) a else Done (fst x)).

Lemma meet_met t a env r threads sync g k all n : agent_of p a = Done g -> value env threads = Done all -> key_of env r = Done k ->
  find same_key k (st_named t) = Some n ->
  meet_on t a env r threads sync = bind (met a g k all sync n) (fun x =>
    let u := with_named (put same_key k (fst x) (st_named t)) t in
    if snd x then bind (fold (fun s other => advance p s (Z.to_nat other)) u (na_waiting n)) (fun u => advance p u a)
    else if sync then Done u else advance p u a).
Proof.
  intros G V K N. unfold meet_on, meet, met, declared_named. rewrite G, V, K. cbn [bind]. rewrite N. cbn [bind]. cbv zeta.
  destruct (guard _ NamedBarrierMisuse [a]); [|easy..]. cbn [bind]. destruct (guard _ NamedBarrierMisuse [a]); [|easy..]. cbn [bind].
  destruct (_ <? all); cbn [bind fst snd]; [now destruct sync|]. now destruct (fold _ _ (na_waiting n)).
Qed.

Lemma acting_meet R s a env r threads sync g k all full : agent_of p a = Done g -> value env threads = Done all -> key_of env r = Done k ->
  In (AtPlace a) R -> ~ In (AtNamed k) R ->
  acting [(AtNamed k, on_named (meet_act full a g k all sync))] R (filter own R) ([AtNamed k] ++ if sync && negb full then [] else AtPlace a :: stops s [a]) s
    (fun t => meet_on t a env r threads sync).
Proof.
  intros G V K I O.
  assert (H : acting ([(AtNamed k, on_named (meet_act full a g k all sync))] ++ []) R (filter own R) ([AtNamed k] ++ if sync && negb full then [] else AtPlace a :: stops s [a]) s
    (fun t => bind (bind (got (find same_key k (st_named t))) (fun n => bind (met a g k all sync n) (fun x =>
      Done (with_named (put same_key k (fst x) (st_named t)) t)))) (fun u => if sync && negb full then Done u else advance p u a))).
  { apply (acting_bind p _ [] R (filter own R) (filter own R)).
    - apply acting_named; [apply own_less|easy|now left|]. intros t n x _ N. rewrite N. cbn [got bind]. unfold meet_act.
      destruct (met a g k all sync n) as [[m []]| |]; cbn [bind fst].
      + destruct (full && is_empty (na_waiting n)); [|easy]. now intros [= <-].
      + destruct full; [easy|]. now intros [= <-].
      + now intros [= <-].
      + now intros [= <-].
    - intros u U _. assert (P : st_positions u = st_positions s).
      { destruct (find same_key k (st_named s)) as [n|]; [|easy]. cbn [got bind] in U. destruct (met a g k all sync n) as [x| |]; [|easy..].
        now injection U as <-. }
      destruct (sync && negb full); [apply acting_frame; now apply frame_done|].
      apply (acting_same p [] _ _ _ u (fun t => fold (fun s o => advance p s o) t [a])); [intros v; apply go_one|].
      apply (acting_less p [] _ (filter own (filter own R)) _ (AtPlace a :: stops s [a])); [apply own_own|apply incl_refl|].
      apply acting_go; [intros x [<-|[]]; now apply filter_In|intros x [<-|[]]; now left|]. rewrite (stops_same u s) by easy. intros x X. now right.
    - intros l x [[= <- _]|[]]. easy.
    - easy.
    - intros l [<-|[]] X. destruct (sync && negb full); [easy|]. destruct X as [X|X]; [easy|]. now destruct (stops_ended _ _ _ X).
    - easy. }
  intros t N M. specialize (H t N M). specialize (M (AtNamed k) _ (or_introl eq_refl)). cbn [part_at on_named] in M.
  destruct (find same_key k (st_named s)) as [b|] eqn:B; [|easy]. destruct (find same_key k (st_named t)) as [c|] eqn:C.
  2: { match type of M with matched ?x _ => now destruct x as [[]|] end. }
  rewrite (meet_met s a env r threads sync g k all b), (meet_met t a env r threads sync g k all c) by easy.
  assert (Q : forall u n v, matched (match meet_act full a g k all sync n with Some x => Some (bind x (fun n => Done (PNamed (Some n)))) | None => None end) v ->
    bind (met a g k all sync n) (fun x => let w := with_named (put same_key k (fst x) (st_named u)) u in
    if snd x then bind (fold (fun s other => advance p s (Z.to_nat other)) w (na_waiting n)) (fun w => advance p w a)
    else if sync then Done w else advance p w a) =
    bind (bind (got (Some n)) (fun n => bind (met a g k all sync n) (fun x =>
      Done (with_named (put same_key k (fst x) (st_named u)) u)))) (fun u => if sync && negb full then Done u else advance p u a)).
  { intros u n v. unfold meet_act. cbn [got bind]. destruct (met a g k all sync n) as [[m []]| |]; cbn [bind fst snd]; try easy.
    - destruct full; [|easy]. destruct (na_waiting n); [|easy]. intros _. now rewrite andb_false_r.
    - destruct full; [easy|]. intros _. now rewrite andb_true_r. }
  assert (Y : forall x y : option (outcome part), matched x y -> matched y x).
  { intros [[]|] [[]|]; cbn; intuition congruence. }
  cbn beta in H. rewrite B, C in H. rewrite (Q s b _ M), (Q t c _ (Y _ _ M)). exact H.
Qed.

(** An arrival that lets others go on sees and changes their places. *)
Fixpoint apart_all (l : list nat) : bool := match l with [] => true | a :: l => negb (existsb (Nat.eqb a) l) && apart_all l end.

Lemma acting_fill R (W : list loc) s a env r threads sync g k all n : agent_of p a = Done g -> value env threads = Done all -> key_of env r = Done k ->
  find same_key k (st_named s) = Some n -> (exists m, met a g k all sync n = Done (m, true)) ->
  incl (map AtPlace (map Z.to_nat (na_waiting n) ++ [a])) R -> In (AtNamed k) R ->
  incl (AtNamed k :: map AtPlace (map Z.to_nat (na_waiting n) ++ [a]) ++ stops s (map Z.to_nat (na_waiting n) ++ [a])) W ->
  acting [] R (filter own R) W s (fun t => meet_on t a env r threads sync).
Proof.
  intros G V K N (m & M) I J C. set (l := map Z.to_nat (na_waiting n) ++ [a]) in *. intros t Nr _.
  pose proof (proj2 Nr _ J) as E. cbn in E. rewrite N in E. symmetry in E.
  assert (Q : forall u, find same_key k (st_named u) = Some n -> meet_on u a env r threads sync =
    bind (Done (with_named (put same_key k m (st_named u)) u)) (fun u => fold (fun s o => advance p s o) u l)).
  { intros u U. rewrite (meet_met u a env r threads sync g k all n) by easy. rewrite M. cbn [bind fst snd]. cbv zeta. unfold l. rewrite fold_app.
    assert (F : forall (l : list Z) v, fold (fun s o => advance p s o) v (map Z.to_nat l) = fold (fun s other => advance p s (Z.to_nat other)) v l).
    { induction l0 as [|x l0 IH]; intros v; cbn; [easy|]. destruct (advance p v (Z.to_nat x)); cbn; [apply IH|easy..]. }
    rewrite F. destruct (fold _ _ (na_waiting n)); cbn [bind]; [now rewrite go_one|easy..]. }
  rewrite (Q s N), (Q t E). revert t Nr E.
  enough (H : acting ([] ++ []) R (filter own R) ([AtNamed k] ++ map AtPlace l ++ stops s l) s
    (fun u => bind (Done (with_named (put same_key k m (st_named u)) u)) (fun u => fold (fun s o => advance p s o) u l))).
  { intros t Nr _. apply (acting_less p [] R (filter own R) (filter own R) _ W) in H; [|apply incl_refl|exact C]. now apply H. }
  apply (acting_bind p [] [] R R (filter own R)); try easy.
  - apply acting_frame. apply frame_put_named; [now left|congruence].
  - intros u [= <-] _. apply acting_go; [easy|intros x X; apply in_or_app; now left|intros x X; apply in_or_app; now right].
Qed.

(** ** Fences of the async proxy *)

(** Such a fence takes away the marks of its agent and of engines. Of those that are there it makes none, whichever fence
    comes first; of those that are not there it sees that they are not. *)
Section Clear.
Variable a : nat.
Definition gone : list Z := add engine [Z.of_nat a].
Definition cleared (c : cell) (h : content) : content := fenced p FenceAsync a gone c h.
Local Arguments gone : simpl never.
Local Arguments cleared : simpl never.
Definition own_marks (c : cell) : list loc := [AtWriter c engine; AtWriter c (Z.of_nat a); AtReader c engine; AtReader c (Z.of_nat a)].
Definition is_set (h : option content) (l : loc) : bool :=
  match h, l with
  | Some h, AtWriter _ n => inside n (co_writers h)
  | Some h, AtReader _ n => inside n (co_readers h)
  | _, _ => false
  end.
Definition is_writer (l : loc) : bool := match l with AtWriter _ _ => true | _ => false end.
Definition clear : action := fun v => match v with PFlag (Some _) => Some (Done (PFlag (Some false))) | _ => None end.

Definition clear_seen (h : option content) (c : cell) : list loc := AtMarks c :: filter (fun l => negb (is_set h l)) (own_marks c).
Definition clear_acts (h : option content) (c : cell) : acts := map (fun l => (l, clear)) (filter (is_set h) (own_marks c)).
Definition keeps_marks (h : option content) (c : cell) : bool :=
  match h with Some h => if part_dec (PMarks (Some (co_marks (cleared c h)))) (PMarks (Some (co_marks h))) then true else false | None => true end.
Definition clear_changed (h : option content) (c : cell) : list loc :=
  let set := filter (is_set h) (own_marks c) in
  set ++ (if keeps_marks h c then [] else [AtMarks c])
  ++ (if existsb is_writer set then [AtWriters c] else []) ++ (if existsb (fun l => negb (is_writer l)) set then [AtReaders c] else []).

Lemma in_gone n : inside n gone = true -> n = engine \/ n = Z.of_nat a.
Proof. unfold gone. rewrite inside_add. cbn [inside existsb]. rewrite orb_false_r, orb_true_iff, !Z.eqb_eq. easy. Qed.
Lemma gone_in n : n = engine \/ n = Z.of_nat a -> inside n gone = true.
Proof. intros [-> | ->]; unfold gone; rewrite inside_add; cbn [inside existsb]; rewrite Z.eqb_refl, ?orb_true_r; easy. Qed.

Lemma without_none l m : (forall n, inside n m = true -> inside n l = false) -> without m l = l.
Proof.
  unfold without. induction l as [|h l IH]; intros H; cbn; [easy|]. destruct (inside h m) eqn:E.
  - specialize (H h E). cbn in H. now rewrite Z.eqb_refl in H.
  - cbn. f_equal. apply IH. intros n N. specialize (H n N). cbn in H. apply orb_false_iff in H. apply H.
Qed.

Lemma cleared_marks c h g : co_marks h = co_marks g -> co_marks (cleared c h) = co_marks (cleared c g).
Proof. unfold cleared, fenced. cbv zeta beta iota. cbn [co_marks]. now intros ->. Qed.

Lemma cleared_writers c h : co_writers (cleared c h) = without gone (co_writers h).
Proof. reflexivity. Qed.
Lemma cleared_readers c h : co_readers (cleared c h) = without gone (co_readers h).
Proof. reflexivity. Qed.
Definition clears (c : cell) (t : state) : outcome state := bind (cell_at t c) (fun h => Done (put_cell t c (cleared c h))).

Lemma set_part c l t h : find same_key c (st_cells t) = h -> In l (own_marks c) -> part_at l t = PFlag (option_map (fun _ => is_set h l) h).
Proof. intros <- [<-|[<-|[<-|[<-|[]]]]]; cbn; now destruct (find same_key c (st_cells t)). Qed.

Lemma own_mark c n : inside n gone = true -> In (AtWriter c n) (own_marks c) /\ In (AtReader c n) (own_marks c).
Proof. intros G. destruct (in_gone n G) as [-> | ->]; cbn; tauto. Qed.

Lemma acting_clear R s c h : find same_key c (st_cells s) = h -> incl (clear_seen h c) R -> (forall l, In l R -> own l = true) ->
  acting (clear_acts h c) R R (clear_changed h c) s (clears c).
Proof.
  intros E I OR t [S N] _. pose proof S as (_ & _ & _ & _ & K & _). unfold clears, cell_at. rewrite E.
  destruct h as [h|]; destruct (find same_key c (st_cells t)) as [g|] eqn:F; cbn [got bind]; try easy.
  2: { symmetry in K. rewrite (none_keys c _ _ K F) in E. easy. }
  2: { rewrite (none_keys c _ _ K E) in F. easy. }
  pose proof (N _ (I _ (or_introl eq_refl))) as M. cbn in M. rewrite E, F in M. cbn in M. injection M as M.
  assert (W : forall n l, inside n (without gone l) = inside n l && negb (inside n gone)) by (intros; apply inside_without).
  assert (U : forall n, inside n gone = true ->
    (inside n (co_writers h) = true /\ In (AtWriter c n) (clear_changed (Some h) c) /\ In (AtWriters c) (clear_changed (Some h) c)
     \/ inside n (co_writers h) = false /\ inside n (co_writers g) = false) /\
    (inside n (co_readers h) = true /\ In (AtReader c n) (clear_changed (Some h) c) /\ In (AtReaders c) (clear_changed (Some h) c)
     \/ inside n (co_readers h) = false /\ inside n (co_readers g) = false)).
  { intros n G. destruct (own_mark c n G) as [O1 O2]. split.
    - destruct (inside n (co_writers h)) eqn:X; [left|right].
      + assert (Y : In (AtWriter c n) (filter (is_set (Some h)) (own_marks c))) by now apply filter_In.
        split; [easy|]. unfold clear_changed. cbv zeta. split; [apply in_or_app; now left|]. do 2 (apply in_or_app; right). apply in_or_app. left.
        replace (existsb is_writer _) with true; [now left|]. symmetry. apply existsb_exists. now exists (AtWriter c n).
      + split; [easy|]. assert (Y : In (AtWriter c n) R). { apply I. right. apply filter_In. cbn. now rewrite X. }
        specialize (N _ Y). cbn in N. rewrite E, F in N. cbn in N. congruence.
    - destruct (inside n (co_readers h)) eqn:X; [left|right].
      + assert (Y : In (AtReader c n) (filter (is_set (Some h)) (own_marks c))) by now apply filter_In.
        split; [easy|]. unfold clear_changed. cbv zeta. split; [apply in_or_app; now left|]. do 3 (apply in_or_app; right).
        replace (existsb (fun l => negb (is_writer l)) _) with true; [now left|]. symmetry. apply existsb_exists. now exists (AtReader c n).
      + split; [easy|]. assert (Y : In (AtReader c n) R). { apply I. right. apply filter_In. cbn. now rewrite X. }
        specialize (N _ Y). cbn in N. rewrite E, F in N. cbn in N. congruence. }
  assert (V : co_marks (cleared c h) = co_marks h \/ In (AtMarks c) (clear_changed (Some h) c)).
  { unfold clear_changed, keeps_marks. destruct (part_dec _ _) as [X|X]; [left; congruence|right].
    apply in_or_app. right. apply in_or_app. left. now left. }
  assert (P : moved (clear_changed (Some h) c) s (put_cell s c (cleared c h))).
  { split; [repeat split; try easy; cbn; symmetry; apply keys_put; now rewrite E|].
    intros l L. destruct l; try easy; cbn; destruct (key_cases c c0) as [<-|D]; rewrite ?find_put_same, ?find_put_other by easy; try easy;
      rewrite E; cbn [option_map]; f_equal; symmetry.
    - now destruct V.
    - rewrite ?cleared_writers, ?cleared_readers, W. destruct (inside n gone) eqn:G; [|now rewrite andb_true_r]. destruct (proj1 (U n G)) as [(_ & X & _)|[X _]]; [easy|]. now rewrite X.
    - rewrite ?cleared_writers, ?cleared_readers, W. destruct (inside n gone) eqn:G; [|now rewrite andb_true_r]. destruct (proj2 (U n G)) as [(_ & X & _)|[X _]]; [easy|]. now rewrite X.
    - rewrite ?cleared_writers, ?cleared_readers. apply without_none. intros n G. destruct (proj1 (U n G)) as [(_ & _ & X)|[X _]]; [easy|]. exact X.
    - rewrite ?cleared_writers, ?cleared_readers. apply without_none. intros n G. destruct (proj2 (U n G)) as [(_ & _ & X)|[X _]]; [easy|]. exact X. }
  split; [exact P|]. split; [|split].
  - split; [repeat split; try easy; cbn; symmetry; apply keys_put; now rewrite F|].
    intros l O L. destruct l; try easy; cbn; destruct (key_cases c c0) as [<-|D]; rewrite ?find_put_same, ?find_put_other by easy; try easy;
      rewrite F; cbn [option_map]; f_equal; symmetry.
    + destruct V as [V|V]; [|easy]. rewrite (cleared_marks c g h), V; easy.
    + rewrite ?cleared_writers, ?cleared_readers, W. destruct (inside n gone) eqn:G; [|now rewrite andb_true_r]. destruct (proj1 (U n G)) as [(_ & X & _)|[_ X]]; [easy|]. now rewrite X.
    + rewrite ?cleared_writers, ?cleared_readers, W. destruct (inside n gone) eqn:G; [|now rewrite andb_true_r]. destruct (proj2 (U n G)) as [(_ & X & _)|[_ X]]; [easy|]. now rewrite X.
  - split.
    + destruct S as (S1 & S2 & S3 & S4 & S5 & S6). repeat split; try easy. cbn. rewrite !keys_put; [easy| |]; congruence.
    + intros l L. pose proof (N l L) as X. pose proof (OR l L) as O. destruct l; try easy; cbn in X |- *;
        (destruct (key_cases c c0) as [<-|D]; [|now rewrite !find_put_other]); rewrite !find_put_same; rewrite E, F in X; cbn in X |- *; injection X as X;
        f_equal; try easy.
      * transitivity (core h); [reflexivity|]. transitivity (core g); [unfold core; congruence|reflexivity].
      * now apply cleared_marks.
      * now rewrite ?cleared_writers, ?cleared_readers, !W, X.
      * now rewrite ?cleared_writers, ?cleared_readers, !W, X.
  - intros l r Y. unfold clear_acts in Y. apply in_map_iff in Y as (l' & [= <- <-] & Y). apply filter_In in Y as [Y Y'].
    rewrite (set_part c l' s (Some h)), (set_part c l' t (Some g)) by easy.
    rewrite (set_part c l' _ (Some (cleared c h))), (set_part c l' _ (Some (cleared c g))) by (easy || apply find_put_same). cbn [option_map clear].
    assert (Z : forall u, is_set (Some (cleared c u)) l' = false).
    { intros u. destruct Y as [<-|[<-|[<-|[<-|[]]]]]; cbn [is_set]; rewrite ?cleared_writers, ?cleared_readers, W;
        match goal with |- _ && negb (inside ?n gone) = _ => assert (G : inside n gone = true) by (apply gone_in; tauto); rewrite G end; now rewrite andb_false_r. }
    now rewrite !Z.
Qed.

Definition of_cell (c : cell) (l : loc) : Prop := match l with AtMarks d | AtWriter d _ | AtReader d _ | AtWriters d | AtReaders d => d = c | _ => False end.

Lemma changed_cell h c l : In l (clear_changed h c) -> of_cell c l.
Proof.
  unfold clear_changed. cbv zeta. intros I. repeat (apply in_app_or in I as [I|I]).
  - apply filter_In in I as [[<-|[<-|[<-|[<-|[]]]]] _]; easy.
  - destruct (keeps_marks h c); [easy|]. now destruct I as [<-|[]].
  - destruct (existsb is_writer _); [|easy]. now destruct I as [<-|[]].
  - destruct (existsb (fun l => negb (is_writer l)) _); [|easy]. now destruct I as [<-|[]].
Qed.
Lemma acts_cell h c l r : In (l, r) (clear_acts h c) -> of_cell c l /\ own l = true.
Proof. unfold clear_acts. intros I. apply in_map_iff in I as (l' & [= <- _] & I). apply filter_In in I as [[<-|[<-|[<-|[<-|[]]]]] _]; easy. Qed.
Lemma one_cell c d l : of_cell c l -> of_cell d l -> c = d.
Proof. destruct l; cbn; try easy; congruence. Qed.

Definition over (s : state) {X} (f : option content -> cell -> list X) (l : list cell) : list X :=
  flat_map (fun c => f (find same_key c (st_cells s)) c) l.

Lemma acting_clears R s l : (forall l, In l R -> own l = true) -> once l = true -> incl (over s clear_seen l) R ->
  forall t, (forall c, In c l -> find same_key c (st_cells t) = find same_key c (st_cells s)) ->
  acting (over s clear_acts l) R R (over s clear_changed l) t (fun u => fold (fun u c => clears c u) u l).
Proof.
  intros OR. induction l as [|c l IH]; intros O I t E; cbn [fold]; [apply acting_frame; now apply frame_done|].
  cbn in O. apply andb_true_iff in O as [O1 O2].
  assert (D : forall d, In d l -> c <> d).
  { intros d J ->. apply negb_true_iff in O1. assert (X : existsb (same_key d) l = true); [|congruence].
    apply existsb_exists. exists d. split; [easy|apply same_key_refl]. }
  change (acting (clear_acts (find same_key c (st_cells s)) c ++ over s clear_acts l) R R
    (clear_changed (find same_key c (st_cells s)) c ++ over s clear_changed l) t (fun u => bind (clears c u) (fun u => fold (fun u c => clears c u) u l))).
  apply acting_bind with R.
  - apply acting_clear; [apply E; now left| |easy]. intros x X. apply I. apply in_or_app. now left.
  - intros u U _. apply IH; [easy| |].
    + intros x X. apply I. apply in_or_app. now right.
    + intros d J. rewrite <- (E d (or_intror J)). unfold clears in U. destruct (cell_at t c) as [h| |]; [|easy..]. injection U as <-. cbn.
      apply find_put_other. now apply D.
  - intros x r X. now destruct (acts_cell _ _ x r X).
  - intros x r X. apply in_flat_map in X as (d & _ & X). now destruct (acts_cell _ _ x r X).
  - intros x X Y. apply named_act in X as (r & X). destruct (acts_cell _ _ x r X) as [X' _]. apply in_flat_map in Y as (d & J & Y).
    apply (D d J). apply (one_cell c d x X'). now apply changed_cell in Y.
  - intros x X Y. apply named_act in X as (r & X). apply in_flat_map in X as (d & J & X). destruct (acts_cell _ _ x r X) as [X' _].
    apply (D d J). apply changed_cell in Y. now apply (one_cell c d x Y).
Qed.

Lemma acting_fence R s spaces : po_path (pr_policies p) = false -> once (fence_cells p a FenceAsync spaces) = true ->
  (forall l, In l R -> own l = true) -> incl (over s clear_seen (fence_cells p a FenceAsync spaces)) R ->
  acting (over s clear_acts (fence_cells p a FenceAsync spaces)) R R (over s clear_changed (fence_cells p a FenceAsync spaces)) s
    (fun t => fence p t a FenceAsync spaces).
Proof.
  intros P O OR I. apply (acting_same p _ R R _ s (fun u => fold (fun u c => clears c u) u (fence_cells p a FenceAsync spaces))).
  - intros t. unfold fence, fence_cells. rewrite P. cbn [andb]. generalize (pr_buffers p). intros l. revert t.
    induction l as [|b l IH]; intros t; cbn [flat_map fold]; [easy|]. rewrite fold_app. destruct (covers p a FenceAsync spaces b); [|apply IH].
    replace (fold (fun s c => let* h := cell_at s c in _) t _) with (fold (fun u c => clears c u) t (flat_map (fun stage => cells_of b stage None) (below (bu_stages b)))) by reflexivity.
    destruct (fold (fun u c => clears c u) t _); cbn [bind]; [apply IH|easy..].
  - now apply acting_clears.
Qed.
End Clear.
End Acts.
